# Types, strictly.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
.venv/bin/mypy
