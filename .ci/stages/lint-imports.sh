# Layers: imports go downwards only.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
.venv/bin/lint-imports --no-cache --no-logo
