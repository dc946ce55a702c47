"""A cluster: the same answers from logs that outgrow one machine, by Apache Spark.

`pip install observant[spark]` on the driver and wherever executors run. Functions take and return
Spark data frames; inside, each partition goes through the same code as on one machine, as Arrow
batches. Importing this package does not import Spark.
"""

from observant.batch.spark.plan_frame import SparkPlan, collection_currency, currency, plan
from observant.batch.spark.rate_frame import estimate_rates, pool
from observant.batch.spark.session import read_visits, session, write_file

__all__ = [
    "SparkPlan",
    "collection_currency",
    "currency",
    "estimate_rates",
    "plan",
    "pool",
    "read_visits",
    "session",
    "write_file",
]
