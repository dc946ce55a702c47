"""All performance claims: python -m benchmarks [--large]."""

import argparse

from benchmarks import (
    currency,
    imports,
    intervals,
    intervals_em,
    partition,
    planning,
    rates,
    scale,
    scheduling,
    simulation,
    spark,
    startup,
)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--large", action="store_true", help="100 million visits; about ten minutes")
options = parser.parse_args()
startup.main()
rates.main(large=options.large)
currency.main()
planning.main()
scheduling.main()
intervals.main()
intervals_em.em()
simulation.main()
scale.main()
if options.large:
    partition.main()
    imports.main()
    scale.main((100_000_000,), "1GB")
    spark.main()
