# The linter and the formatter.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
status=0
.venv/bin/ruff check --no-cache . || status=1
.venv/bin/ruff format --check --no-cache . || status=1
exit $status
