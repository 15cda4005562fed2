PRAGMA application_id = 1115319411;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    parent INTEGER REFERENCES entries (seq),
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "entries" VALUES(1,'main0',NULL,'message',1796044571039,'{"role":"user","content":[{"type":"text","text":"text 0"}]}');
INSERT INTO "entries" VALUES(5,'main1',1,'message',1796044571040,'{"role":"user","content":[{"type":"text","text":"text 1"}]}');
INSERT INTO "entries" VALUES(9,'main2',5,'message',1796044571040,'{"role":"user","content":[{"type":"text","text":"text 2"}]}');
INSERT INTO "entries" VALUES(13,'main3',9,'message',1796044571040,'{"role":"user","content":[{"type":"text","text":"text 3"}]}');
INSERT INTO "entries" VALUES(17,'main4',13,'message',1796044571040,'{"role":"user","content":[{"type":"text","text":"text 4"}]}');
INSERT INTO "entries" VALUES(21,'main5',17,'message',1796044571040,'{"role":"user","content":[{"type":"text","text":"text 5"}]}');
INSERT INTO "entries" VALUES(25,'main6',21,'message',1796044571040,'{"role":"user","content":[{"type":"text","text":"text 6"}]}');
INSERT INTO "entries" VALUES(29,'main7',25,'message',1796044571040,'{"role":"user","content":[{"type":"text","text":"text 7"}]}');
INSERT INTO "entries" VALUES(33,'main8',29,'message',1796044571040,'{"role":"user","content":[{"type":"text","text":"text 8"}]}');
INSERT INTO "entries" VALUES(37,'main9',33,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"text 9"}]}');
INSERT INTO "entries" VALUES(41,'main10',37,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"text 10"}]}');
INSERT INTO "entries" VALUES(45,'main11',41,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"text 11"}]}');
INSERT INTO "entries" VALUES(49,'side0',17,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"side 0"}]}');
INSERT INTO "entries" VALUES(50,'side1',49,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"side 1"}]}');
INSERT INTO "entries" VALUES(51,'side2',50,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"side 2"}]}');
INSERT INTO "entries" VALUES(52,'side3',51,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"side 3"}]}');
INSERT INTO "entries" VALUES(53,'side4',52,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"side 4"}]}');
INSERT INTO "entries" VALUES(54,'root2',NULL,'message',1796044571041,'{"role":"user","content":[{"type":"text","text":"another root"}]}');
CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    lane TEXT NOT NULL,
    command_id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    delivery TEXT NOT NULL,
    resume INTEGER NOT NULL,
    message TEXT NOT NULL
) STRICT;
INSERT INTO "inbox" VALUES(55,'waiting','main','w','o2','queue',0,'{"content":[{"type":"text","text":"later"}]}');
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "journal" VALUES(2,1796044571039,'entry_added','{"entry":"main0"}');
INSERT INTO "journal" VALUES(6,1796044571040,'entry_added','{"entry":"main1"}');
INSERT INTO "journal" VALUES(10,1796044571040,'entry_added','{"entry":"main2"}');
INSERT INTO "journal" VALUES(14,1796044571040,'entry_added','{"entry":"main3"}');
INSERT INTO "journal" VALUES(18,1796044571040,'entry_added','{"entry":"main4"}');
INSERT INTO "journal" VALUES(22,1796044571040,'entry_added','{"entry":"main5"}');
INSERT INTO "journal" VALUES(26,1796044571040,'entry_added','{"entry":"main6"}');
INSERT INTO "journal" VALUES(30,1796044571040,'entry_added','{"entry":"main7"}');
INSERT INTO "journal" VALUES(34,1796044571040,'entry_added','{"entry":"main8"}');
INSERT INTO "journal" VALUES(38,1796044571041,'entry_added','{"entry":"main9"}');
INSERT INTO "journal" VALUES(42,1796044571041,'entry_added','{"entry":"main10"}');
INSERT INTO "journal" VALUES(46,1796044571041,'entry_added','{"entry":"main11"}');
CREATE TABLE receipts (
    command_id TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    digest BLOB NOT NULL,
    result TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "receipts" VALUES('c0',4,X'0000000000000000000000000000000000000000000000000000000000000000','{}');
INSERT INTO "receipts" VALUES('c1',8,X'0101010101010101010101010101010101010101010101010101010101010101','{}');
INSERT INTO "receipts" VALUES('c10',44,X'0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A','{}');
INSERT INTO "receipts" VALUES('c11',48,X'0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B','{}');
INSERT INTO "receipts" VALUES('c2',12,X'0202020202020202020202020202020202020202020202020202020202020202','{}');
INSERT INTO "receipts" VALUES('c3',16,X'0303030303030303030303030303030303030303030303030303030303030303','{}');
INSERT INTO "receipts" VALUES('c4',20,X'0404040404040404040404040404040404040404040404040404040404040404','{}');
INSERT INTO "receipts" VALUES('c5',24,X'0505050505050505050505050505050505050505050505050505050505050505','{}');
INSERT INTO "receipts" VALUES('c6',28,X'0606060606060606060606060606060606060606060606060606060606060606','{}');
INSERT INTO "receipts" VALUES('c7',32,X'0707070707070707070707070707070707070707070707070707070707070707','{}');
INSERT INTO "receipts" VALUES('c8',36,X'0808080808080808080808080808080808080808080808080808080808080808','{}');
INSERT INTO "receipts" VALUES('c9',40,X'0909090909090909090909090909090909090909090909090909090909090909','{}');
CREATE TABLE usage (
    seq INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    lane TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    purpose TEXT NOT NULL,
    model TEXT NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost REAL
) STRICT;
INSERT INTO "usage" VALUES(3,1796044571039,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(7,1796044571040,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(11,1796044571040,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(15,1796044571040,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(19,1796044571040,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(23,1796044571040,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(27,1796044571040,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(31,1796044571040,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(35,1796044571040,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(39,1796044571041,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(43,1796044571041,'main','o','answer','a::b',3,0,0,0,0,0.5);
INSERT INTO "usage" VALUES(47,1796044571041,'main','o','answer','a::b',3,0,0,0,0,0.5);
CREATE TABLE "values" (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "values" VALUES('label/main3','"here"');
INSERT INTO "values" VALUES('tip/main','"main11"');
INSERT INTO "values" VALUES('tip/side','"side4"');
COMMIT;
