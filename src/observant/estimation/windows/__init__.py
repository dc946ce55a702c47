"""Rates that vary in time: Singh's consistent windows, the trend in each, and what comes next.

`estimate_windows` cuts histories into windows and fits each; `predict_next` says when the next
update is due; `calendar_rates` answers for a month or any other stretch of the calendar, and
`forecast_month` for one to come.
"""

from observant.estimation.windows.calendar import CalendarRates, calendar_rates
from observant.estimation.windows.consistent import Windows, consistent_windows
from observant.estimation.windows.forecast import MonthForecast, forecast_month
from observant.estimation.windows.points import UpdatePoints, update_points
from observant.estimation.windows.prediction import Predictions, Rolled, predict_next, roll_forward
from observant.estimation.windows.table import LocalRates, Trends, estimate_windows
from observant.estimation.windows.weibull_rate import ESTIMATORS

__all__ = [
    "ESTIMATORS",
    "CalendarRates",
    "LocalRates",
    "MonthForecast",
    "Predictions",
    "Rolled",
    "Trends",
    "UpdatePoints",
    "Windows",
    "calendar_rates",
    "consistent_windows",
    "estimate_windows",
    "forecast_month",
    "predict_next",
    "roll_forward",
    "update_points",
]
