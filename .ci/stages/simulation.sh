# 50 fixed seeds of each world and 150 that only this commit has, with a third of the time under faults: it prints their
# range, and for each that breaks a promise the command that runs it again. A fresh seed that fails is a real failure.
# (python -m tests.simulation --seeds 2000 is the long run.) It has a process per core, at the lowest priority, in
# simulated time: how long it waits for a core changes nothing.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
bounded --give-way 3600 .venv/bin/python -m tests.simulation --seeds 50 --fresh 150 --faults-s 220
bounded --give-way 3600 .venv/bin/python -m tests.simulation.cluster --seeds 50 --fresh 150
