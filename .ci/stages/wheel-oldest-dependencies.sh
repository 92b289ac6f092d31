# Built as a release is: the sdist, then the wheel from the sdist. Its tests run where there is no checkout, on Python 3.12
# (or the one that is here) with the oldest dependencies that pyproject.toml allows; without the slow ones, which look for
# planted bugs seed after seed, and without the simulation, which has a stage of its own: they run once, in the stages slow
# and tests. A quarter of the examples that properties are tried with (AIOSTORM_EXAMPLES, see tests/conftest.py).
source "$(dirname "$0")/../lib.sh"
copy release
(cd "$WORK/release" && python3 -m uv build --quiet --out-dir "$WORK/dist")
python=$(python_for 3.12)
python3 -m uv venv --quiet --python "${python:-python3}" "$WORK/wheel-env"
"$WORK/wheel-env/bin/python" --version
# What the wheel asks for counts as indirect, and would be the newest: pyproject.toml says it once more, directly.
project=$WORK/pristine/pyproject.toml extras=(standard testing arrow fsspec sketches tls)
direct=(-r "$project" --group "$project:test" "${extras[@]/#/--extra=}")
python3 -m uv pip install --quiet --python "$WORK/wheel-env" --resolution lowest-direct \
    "$(echo "$WORK"/dist/*.whl)" "${direct[@]}"
"$WORK/wheel-env/bin/python" -P "$CI_FOLDER/oldest.py" "$project" "${extras[@]}"
mkdir "$WORK/outside"
(cd "$WORK/pristine" && cp -R tests examples docs README.md pyproject.toml "$WORK/outside")
rm -rf "$WORK"/outside/tests/{house,benchmarks,mutation,deploy} # they are about the checkout
cd "$WORK/outside"
"$WORK/wheel-env/bin/python" -P -c 'import aiostorm; print("testing", aiostorm.__file__)' | tee "$WORK/where"
grep -q site-packages "$WORK/where"
AIOSTORM_EXAMPLES=again bounded 1000 "$WORK/wheel-env/bin/python" -P -m pytest -q -m 'not slow' --ignore=tests/simulation
