# The environments of the stages spark and spark-oldest: the newest PySpark, and the oldest that is promised with the newest
# Python that knows it. Each is 450 MB, and is built here where the registry has no wheel of it: more than a minute, beside
# other stages.
source "$(dirname "$0")/../lib.sh"
copy spark
(cd "$WORK/spark" && bounded 900 python3 -m uv sync --quiet --no-default-groups --group spark)
versions "$WORK/spark/.venv"
python=$(python_for 3.11)
if [[ -n $python ]] && command -v java >/dev/null; then
    copy spark-oldest
    cd "$WORK/spark-oldest"
    python3 -m uv venv --quiet --python "$python" .venv
    bounded 900 python3 -m uv pip install --quiet --python .venv --editable '.[spark]' --group test 'pyspark==3.5.*'
    versions .venv
fi
