# The README's first command, word for word, where nothing is installed yet: its time counts.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
bounded 400 bash -euo pipefail -c 'python3 -m pip install uv && python3 -m uv run aiostorm run examples.word_count:topology'
