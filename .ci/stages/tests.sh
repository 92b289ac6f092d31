# The README's second command, word for word: all tests but the slow ones. Its closing line ends the gate.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
bounded 1200 bash -euo pipefail -c 'python3 -m uv run pytest'
