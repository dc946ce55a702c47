-- Which sitemap or feed a signal stood in.

ALTER TABLE signals ADD COLUMN listing TEXT;
