-- What a visit to a source costs, in plain visits.

ALTER TABLE sources ADD COLUMN cost REAL;
