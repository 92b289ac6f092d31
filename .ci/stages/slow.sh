# The slow tests, which the README's command leaves out; those that need Spark are in the stage spark, which runs beside
# this one: in one process.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
bounded 1800 .venv/bin/python -m pytest -q -n0 --durations=20 -m 'slow and not spark'
