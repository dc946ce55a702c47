"""How current is an index we do not control? Brewington 3.4.2, with a correction that corrects.

For some of its entries the index claims when the source was last modified; we look up when it
really was. Where the two agree the entry is current. Where they differ, the entry is stale, and
the question is whether the first update it missed lies within the grace. Only the last update
shows; earlier ones hide behind it (figure 3.25). Counting every entry whose last update is recent
as current flatters the index, most of all for fast sources. Three answers stand side by side:

- *uncorrected*: that count;
- *printed*: each recent update counts with the probability e^(−λ(t_obs − β − t_SE)) that nothing
  came before the grace, (3.20), with λ = 1/age. It counts from the last update the index knew,
  though the index looked later and saw none; and 1/age of one age has no mean (errata B-15);
- *corrected*: the same idea with the unknowns averaged over instead of guessed. How fast sources
  change, and how long ago the index looked at them, is found from all rows together.
"""

from observant.currency.audit.claims import COLUMNS, Claims
from observant.currency.audit.hidden import forgiven
from observant.currency.audit.measurement import Audit, audit_claims

__all__ = ["COLUMNS", "Audit", "Claims", "audit_claims", "forgiven"]
