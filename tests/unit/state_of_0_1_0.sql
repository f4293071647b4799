-- The state file of recompose 0.1.0, as its own code wrote it (sqlite3 .dump).
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE decision (app TEXT NOT NULL, id INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (app, id));
INSERT INTO "decision" VALUES('synthetic',18,'{"id": 18, "at": "2026-01-01T00:00:00Z", "trigger": "start", "from": "1", "to": "1", "reason": "because", "candidates": [], "trials": 0, "duration_s": 0.0, "gap_ms": null, "drain_estimate_ms": null, "drain_actual_ms": null}');
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('instance','89c8eddc7378');
CREATE TABLE no_change (app TEXT NOT NULL, first_at TEXT NOT NULL, last_at TEXT NOT NULL, body TEXT NOT NULL,
                        PRIMARY KEY (app, first_at));
INSERT INTO "no_change" VALUES('synthetic','2026-01-01T00:00:01Z','2026-01-01T00:00:09Z','{"reason": "met", "first_at": "2026-01-01T00:00:01Z", "last_at": "2026-01-01T00:00:09Z", "count": 3}');
CREATE TABLE overlay (app TEXT PRIMARY KEY, body TEXT NOT NULL);
INSERT INTO "overlay" VALUES('synthetic','[["wide", {"name": "wide", "groups": [{"stages": ["f1", "f2"], "pattern": "par", "replicas": 3}, {"stages": ["f3"], "pattern": "seq", "replicas": 1}]}], ["3", null]]');
CREATE TABLE slo (id INTEGER PRIMARY KEY AUTOINCREMENT, app TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
                  accepted_at TEXT NOT NULL);
INSERT INTO "slo" VALUES(1,'words','{"metric":"latency","target":400.0,"threshold":0.1,"statistic":"p95"}','2026-01-01T00:00:00.000Z');
INSERT INTO "slo" VALUES(2,'synthetic','{"metric":"throughput","target":"input_rate","threshold":0.2,"statistic":"mean"}','2026-01-01T00:00:00.000Z');
CREATE TABLE started (app TEXT PRIMARY KEY, spec TEXT NOT NULL, first_decision INTEGER NOT NULL);
INSERT INTO "started" VALUES('synthetic','{"app":"synthetic","apps_dirs":["/apps"],"options":{"weights":"1:2:3"},"source":{"kind":"push","path":null,"loop":true,"format":null,"options":{},"transform":null,"checkpoint":null},"sink":null,"input":{"rate_per_s":null,"pattern":"wave","period_s":3.0,"min_per_s":1.0,"max_per_s":2.0,"size_percent":10.0,"path":null},"overload":"block","compositions":[{"name":"wide","groups":[{"stages":["f1","f2"],"pattern":"par","replicas":3},{"stages":["f3"],"pattern":"seq","replicas":1}]}],"composition":"wide","slo":null,"mode":"pinned","strategy":"model","switch_style":"seamless","pool":"ray","items":null,"duration_s":null,"out_path":null,"dead_letters_path":null,"telemetry":{"folder":"/telemetry","keep_days":7.0,"keep_mb":1000.0},"settings":{}}',17);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('slo',2);
COMMIT;

