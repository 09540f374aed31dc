#!/usr/bin/env bash
# Pretrains on a spot TPU until all steps are done: requests a TPU, installs, starts the training
# there, and requests another TPU whenever this one is preempted.
#
#   TPU=albert ZONE=us-west4-a ACCELERATOR=v5litepod-8 RUNTIME=v2-alpha-tpuv5-lite \
#   SERVICE_ACCOUNT=albert@my-project.iam.gserviceaccount.com \
#       examples/tpu/train_on_spot.sh --engine=jax --flagfile=configs/pretraining/base_v2.cfg --use_tpu \
#           --input_file='gs://my-bucket/data/train*' --output_dir=gs://my-bucket/base_v2 ...
#
# Run it at the root of a checkout, on a computer that stays on. If it is restarted, it picks up the
# current state. With --engine=jax, it starts the training on every host of the slice; without it
# (TensorFlow), it supports slices of one host. --output_dir must be on gs://, because the disk of
# the TPU is deleted with it.
set -euo pipefail
: "${TPU:?} ${ZONE:?} ${ACCELERATOR:?} ${RUNTIME:?} ${SERVICE_ACCOUNT:?}"
POLL_SECONDS=${POLL_SECONDS:-60}
package=$(mktemp -d)
trap 'rm -r "$package"' EXIT

# The Python of images with Ubuntu 22.04, 3.10, is too old.
create_venv='python3 -m venv uv && uv/bin/pip install -q uv && uv/bin/uv venv -q --seed --python=3.12 venv'
# What each engine needs on the TPU.
if [[ " $* " == *" --engine=jax "* ]]; then
  hosts=all
  requirements='"./albert[jax-tpu]"'
  variables=
else
  hosts=0
  requirements='"./albert[tpu]"'
  variables="--setenv=NEXT_PLUGGABLE_DEVICE_USE_C_API=true \
    --setenv=TF_PLUGGABLE_DEVICE_LIBRARY_PATH=\$(venv/bin/python -c 'import libtpu; print(libtpu.get_library_path())')"
fi

queue() { gcloud compute tpus queued-resources "$@" --zone="$ZONE"; }
on_tpu() { gcloud compute tpus tpu-vm ssh "$TPU" --zone="$ZONE" --worker="$hosts" --command="$1"; }
say() { echo "$(date '+%F %T') $*"; }

state() {
  local known
  known=$(queue list --filter="name~/$TPU\$" --format='value(state.state)') || return
  echo "${known:-NONE}"
}

# States of the service on the hosts, sorted, each once: activating (about to restart), active, failed
# or inactive (not started, or done). Empty if a host does not answer.
training() {
  local states
  states=$(on_tpu 'systemctl is-active albert || true' 2>/dev/null) || return 0
  grep -owE 'activating|active|failed|inactive' <<< "$states" | sort -u | xargs || true
}

install() {
  git archive --output="$package/albert.tar.gz" HEAD
  gcloud compute tpus tpu-vm scp "$package/albert.tar.gz" "$TPU:" --zone="$ZONE" --worker="$hosts" || return
  on_tpu "set -e
    sudo apt-get update -q && sudo apt-get install -qy python3-venv
    mkdir -p albert && tar -xzf albert.tar.gz -C albert
    [ -x venv/bin/pip ] || { $create_venv; }
    venv/bin/pip install -q $requirements"
}

start() {
  install || return
  # Exit codes other than 1 mean that the same command can resume. A host on which an earlier attempt
  # has started it is left alone.
  on_tpu "[ \"\$(systemctl is-active albert)\" != inactive ] || \
    sudo systemd-run --unit=albert --uid=\$USER --working-directory=\$HOME/albert \
    --property=Restart=on-failure --property=RestartPreventExitStatus=1 --property=RestartSec=30 \
    --property=TimeoutStopSec=300 $variables \
    \$HOME/venv/bin/python run_pretraining.py $(printf ' %q' "$@")" || return
  started=yes
}

# Gives up when the same action has failed five times in a row: a network failure ends sooner.
failures=0
try() {
  if "$@"; then
    failures=0
  elif [ $((failures += 1)) -ge 5 ]; then
    say "failed five times in a row: $1"
    exit 1
  fi
}

while true; do
  now=$(state) || now=UNKNOWN
  case $now in
    NONE)
      say "requesting a $ACCELERATOR in $ZONE"
      try queue create "$TPU" --node-id="$TPU" --accelerator-type="$ACCELERATOR" \
        --runtime-version="$RUNTIME" --service-account="$SERVICE_ACCOUNT" \
        --scopes=cloud-platform --spot --async ;;
    ACTIVE)
      states=$(training)
      case $states in
        *failed*)
          say "training ended with an error (to restart, first run: sudo systemctl reset-failed albert)"
          on_tpu 'journalctl --unit=albert --lines=20 --no-pager' || true
          exit 1 ;;
        *inactive)
          if [ "${started:-}" != yes ]; then
            say "installing and starting"
            try start "$@"
          elif [ "$states" = inactive ]; then
            say "done; delete the TPU: gcloud compute tpus queued-resources delete $TPU --zone=$ZONE --force"
            exit 0
          fi ;;
        activ*) ;;
        *) say "$TPU does not answer" ;;
      esac ;;
    SUSPENDED | FAILED)
      say "the TPU was preempted ($now)"
      started=
      try queue delete "$TPU" --force --quiet --async ;;
    *) say "$now" ;;
  esac
  sleep "$POLL_SECONDS"
done
