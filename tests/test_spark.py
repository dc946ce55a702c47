"""Real Spark with two worker processes: the same answers as on one machine, whatever is lost."""

import itertools
import os
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from observant import estimate_rates, plan, read_visits, write_table
from observant.batch import spark as cluster
from observant.batch.spark.session import errors_told, whole_sources
from observant.currency import collection_currency
from observant.errors import InputError, VisitLogError
from observant.estimation.priors import Prior
from observant.testing import synthetic_visits

from .patience import PATIENCE, until

pytestmark = [
    # py4j leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
]
HUGE = 400_000  # visits: more than fit into three batches


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    pytest.importorskip("pyspark", reason="Spark is not installed: observant[spark]")
    if shutil.which("java") is None:
        pytest.skip("there is no Java for Spark")
    import pyspark

    folder = tmp_path_factory.mktemp("spark")
    session = cluster.session(
        "local-cluster[2,1,1024]",
        spark_sql_shuffle_partitions=4,
        spark_sql_warehouse_dir=str(folder / "warehouse"),
        spark_local_dir=str(folder / "local"),
        spark_executor_extraJavaOptions=os.environ["SPARK_SUBMIT_OPTS"],
    )
    yield session
    # The workers of a local cluster write beside the installed Spark, wherever they are told to.
    place = Path(pyspark.__file__).parent / "work" / session.sparkContext.applicationId
    session.stop()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Pages of many hosts, in no order."""
    table = synthetic_visits(sources=1500, visits=10, seed=6)[0].to_arrow()
    table = table.take(pa.array(np.random.default_rng(1).permutation(len(table))))
    file = tmp_path_factory.mktemp("visits") / "visits.parquet"
    pq.write_table(table, file, row_group_size=4_000)
    return str(file)


@pytest.fixture(scope="module")
def skewed(tmp_path_factory):
    """One source with very many visits, in a file beside."""
    rng = np.random.default_rng(1)
    gaps = np.maximum(rng.exponential(0.01, HUGE), 1e-4)
    times = ((20_000.0 + np.cumsum(gaps)) * 86_400_000_000).astype(np.int64)
    table = pa.table(
        {
            "source": pa.DictionaryArray.from_arrays(
                np.zeros(HUGE, np.int8), ["https://huge.example/"]
            ).cast(pa.string()),
            "time": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "changed": rng.random(HUGE) < -np.expm1(-8.0 * gaps),
        }
    ).take(pa.array(rng.permutation(HUGE)))
    file = tmp_path_factory.mktemp("skewed") / "visits.parquet"
    pq.write_table(table, file, row_group_size=100_000)
    return str(file)


@pytest.fixture(scope="module")
def log(visits):
    return read_visits(visits)


def same_rates(found, wanted, tolerance=1e-9):
    found = found.sort_by("source")
    assert found.column_names == wanted.column_names
    for name in ("source", "visits", "changes", "method", "evidence"):
        assert found[name].to_pylist() == wanted[name].to_pylist(), name
    for name in ("exposure_days", "rate_per_day", "rate_low", "rate_high"):
        np.testing.assert_allclose(
            found[name].to_numpy(), wanted[name].to_numpy(), rtol=tolerance, atol=0, err_msg=name
        )


@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=2), st.integers(1, 9)), max_size=12),
    st.integers(1, 7),
    st.integers(1, 12),
)
def test_no_source_is_in_two_pieces(runs, size, rows):
    names = sorted(name for name, times in runs for _ in range(times))
    parts = [names[i : i + size] for i in range(0, len(names), size)]
    batches = (pa.record_batch({"source": pa.array(part, pa.string())}) for part in parts)
    pieces = [table["source"].to_pylist() for table in whole_sources(batches, rows=rows)]
    assert [name for piece in pieces for name in piece] == names
    assert all(pieces)
    for before, after in itertools.pairwise(pieces):
        assert before[-1] < after[0]


@pytest.fixture(scope="module")
def both(spark, visits, skewed):
    """Visits of pages and of the huge source, as a data frame, and the rates of one machine."""
    columns = ("source", "time", "changed", "status", "last_modified", "digest")
    df = (
        cluster.read_visits(spark, visits)
        .select(*columns)
        .unionByName(cluster.read_visits(spark, skewed), allowMissingColumns=True)
    )
    return df, estimate_rates(read_visits(visits, skewed)).to_arrow()


def test_rates_with_one_huge_source(spark, both):
    """The visits of the huge source come in many batches and are one source all the same."""
    df, wanted = both
    assert len(executors(spark)) == 2
    same_rates(cluster.estimate_rates(df).toArrow(), wanted)


def test_pooling_by_group_and_the_prior(spark, visits, log):
    df = cluster.read_visits(spark, visits)
    prior = cluster.pool(df)
    assert isinstance(prior, Prior)
    wanted = estimate_rates(log, "pooled")
    np.testing.assert_array_equal(prior.weights, wanted.posterior.prior.weights)
    found = cluster.estimate_rates(df, "pooled", prior=prior).toArrow()
    same_rates(found, wanted.to_arrow())
    grouped = cluster.estimate_rates(df, "pooled", prior=prior, group="host").toArrow()
    whole = estimate_rates(read_visits(visits, group="host"), "pooled")
    same_rates(grouped, whole.to_arrow(), 1e-2)


def test_the_prior_is_learnt_from_the_same_sources(spark, log):
    """The sources at wanted places in the alphabet are found where they are."""
    from observant.batch.spark.rate_frame import _at_ranks

    names = log.sources.to_pylist()
    ranks = np.array([0, 5, 6, 700, len(names) - 1])
    frame = spark.createDataFrame(pa.table({"source": names}))
    found = _at_ranks(frame.repartition(3), ranks).toArrow()
    assert sorted(found["source"].to_pylist()) == [names[i] for i in ranks]


def test_plan_and_currency(spark):
    rng = np.random.default_rng(2)
    n = 5_000
    table = pa.table(
        {
            "source": [f"s{i:05}" for i in range(n)],
            "rate_per_day": rng.lognormal(-2.0, 1.5, n),
            "importance": rng.lognormal(0.0, 1.0, n),
        }
    )
    df = spark.createDataFrame(table).repartition(3)
    rates, weight = (table[name].to_numpy() for name in table.column_names[1:])
    wanted = plan(rates, importance=weight, budget=500.0, objective="currency", grace=0.5)
    found = cluster.plan(df, 500.0, objective="currency", grace=0.5)
    assert found.summary()["spent_per_day"] == pytest.approx(500.0, rel=1e-9)
    assert found.price == pytest.approx(wanted.price, rel=1e-7)
    assert found.collection_alpha == pytest.approx(wanted.collection_alpha, rel=1e-8)
    assert found.uniform_alpha == pytest.approx(wanted.uniform_alpha, rel=1e-8)
    assert (found.sources, found.starved) == (n, wanted.starved.sum())
    written = found.table.toArrow().sort_by("source")
    np.testing.assert_allclose(
        written["visits_per_day"].to_numpy(), wanted.visits_per_day, rtol=1e-6, atol=1e-8
    )
    assert cluster.collection_currency(df, period=3.0, grace=1.0) == pytest.approx(
        collection_currency(rates, 3.0, 1.0, weight), rel=1e-12
    )


def test_what_is_wrong_is_told(spark, tmp_path):
    twice = spark.createDataFrame(pa.table({"source": ["a", "a"], "time": [1, 1]}))
    with pytest.raises(VisitLogError, match=r"source 'a': the second visit at .*; drop one$"):
        cluster.write_file(cluster.estimate_rates(twice), str(tmp_path / "rates.parquet"))
    assert list(tmp_path.iterdir()) == []
    bad = spark.createDataFrame(pa.table({"source": ["a", "b"], "rate_per_day": [1.0, -1.0]}))
    with pytest.raises(InputError, match=r"source 'b': must be a finite number, not negative"):
        cluster.plan(bad, 1.0)
    with pytest.raises(InputError, match="there is no column 'time'"):
        cluster.estimate_rates(bad)
    with pytest.raises(InputError, match="unknown method"):
        cluster.estimate_rates(twice, "guess")
    with pytest.raises(InputError, match="absent"):
        cluster.read_visits(spark, str(tmp_path / "absent.parquet"))
    with pytest.raises(InputError, match="no column 'team'"):
        cluster.estimate_rates(twice, "pooled", group="team")


@pytest.mark.usefixtures("spark")
def test_the_command(tmp_path):
    """Text is read as text, and the answer is one sorted file; the session is the one that runs."""
    from observant.cli.estimate import estimate

    small, _ = synthetic_visits(sources=60, visits=8, seed=3)
    write_table(small, tmp_path / "visits.csv")
    output = tmp_path / "rates.parquet"
    asked = [str(tmp_path / "visits.csv"), "--engine", "spark", "-m", "auto", "-o", str(output)]
    done = CliRunner().invoke(estimate, asked)
    assert done.exit_code == 0, done.output
    assert "60 sources" in done.output
    wanted = estimate_rates(small, "auto").to_arrow()
    found = pq.read_table(output)
    assert found["source"].to_pylist() == wanted["source"].to_pylist()
    same_rates(found, wanted)
    assert {p.name for p in tmp_path.iterdir()} == {"visits.csv", "rates.parquet"}


def test_a_lost_executor_changes_nothing(spark, both):
    df, wanted = both
    answer, tracker = {}, spark.sparkContext.statusTracker()

    def work():
        with errors_told():
            answer["rates"] = cluster.estimate_rates(df, partitions=24).toArrow()

    def in_the_middle():
        """Of the stage that estimates: some tasks are done, more are to come."""
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(s and s.numTasks == 24 and 2 <= s.numCompletedTasks <= 20 for s in stages)

    victim = executors(spark)[0]
    for _ in range(5):  # whoever looks at the wrong time misses the middle
        running = threading.Thread(target=work)
        running.start()
        until(lambda running=running: in_the_middle() or not running.is_alive())
        if lost := running.is_alive():
            os.kill(victim, signal.SIGKILL)
        running.join(3 * PATIENCE)
        if lost:
            break
    assert lost, "the job ended before an executor could be lost"
    assert victim not in executors(spark)
    same_rates(answer["rates"], wanted)


def executors(spark):
    """Process numbers of this session's executors: descendants of its driver."""
    driver = spark.sparkContext._gateway.proc.pid
    parents, found = {}, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[1])
            if b"CoarseGrainedExecutorBackend" in command and stat[0] != "Z":
                found.append(int(entry.name))

    def ours(process):
        while process in parents:
            if process == driver:
                return True
            process = parents[process]
        return False

    return [process for process in found if ours(process)]
