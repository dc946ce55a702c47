-- Which visits were left to chance, and how many such visits a day their source could expect.

ALTER TABLE visits ADD COLUMN spot_check DOUBLE PRECISION;
CREATE INDEX visits_spot_check ON visits (started_at) WHERE spot_check IS NOT NULL;
