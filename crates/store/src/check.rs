//! Whether a session database is whole: as SQLite sees it, and as its rows must fit together.

use crate::queries::ANCESTRY;
use crate::{Queries, ReadError};

/// A rule that rows must keep: what is said of each that breaks it, and the query that finds those.
struct Rule {
    /// `{}` is where the row is named.
    broken: &'static str,
    find: &'static str,
    since: i64,
}

/// Rows of one kind that are named before the rest is counted.
const NAMED: usize = 20;

const RULES: &[Rule] = &[
    Rule {
        broken: "entry {} continues one that is not there",
        find: "SELECT id FROM entries WHERE parent IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM entries AS above WHERE above.seq = entries.parent)",
        since: 1,
    },
    Rule {
        broken: "entry {} is older than what it continues",
        find: "SELECT id FROM entries WHERE parent >= seq",
        since: 1,
    },
    Rule {
        broken: "entry {} holds no JSON",
        find: "SELECT id FROM entries WHERE NOT json_valid(body)",
        since: 1,
    },
    Rule {
        broken: "the value {} is no JSON",
        find: r#"SELECT key FROM "values" WHERE NOT json_valid(value)"#,
        since: 1,
    },
    Rule {
        broken: "the tip of lane {} is not in the tree",
        find: r#"SELECT substr(key, 5) FROM "values" WHERE key >= 'tip/' AND key < 'tip0' AND json_valid(value)
               AND NOT EXISTS (SELECT 1 FROM entries WHERE id = json_extract(value, '$'))"#,
        since: 1,
    },
    Rule {
        broken: "the waiting message {} is in the tree already",
        find: "SELECT id FROM inbox WHERE EXISTS (SELECT 1 FROM entries WHERE entries.id = inbox.id)",
        since: 1,
    },
    Rule {
        broken: "the waiting message {} holds no JSON",
        find: "SELECT id FROM inbox WHERE NOT json_valid(message)",
        since: 1,
    },
    Rule {
        broken: "the receipt of command {} cannot be read",
        find: "SELECT command_id FROM receipts WHERE NOT json_valid(result) OR length(digest) <> 32",
        since: 1,
    },
    Rule {
        broken: "the event with number {} holds no JSON",
        find: "SELECT CAST(seq AS TEXT) FROM journal WHERE NOT json_valid(body)",
        since: 1,
    },
    Rule {
        broken: "the place of entry {} on its path is not right",
        find: "SELECT id FROM entries LEFT JOIN ancestry ON ancestry.seq = entries.seq
               LEFT JOIN ancestry AS above ON above.seq = entries.parent
               WHERE ancestry.parent IS NOT entries.parent
                  OR ancestry.depth IS NOT iif(entries.parent IS NULL, 0, above.depth + 1)",
        since: ANCESTRY,
    },
    Rule {
        broken: "the totals of usage are not those of its {} rows",
        find: "SELECT CAST(counted AS TEXT) FROM
                 (SELECT count(*) AS counted, coalesce(sum(input), 0) AS input_sum, coalesce(sum(output), 0) AS output_sum FROM usage)
               WHERE NOT EXISTS (SELECT 1 FROM usage_totals
                 WHERE requests = counted AND input = input_sum AND output = output_sum)",
        since: ANCESTRY,
    },
];

impl Queries<'_> {
    /// Reads the whole file and says what is wrong with it; nothing when it is whole. What cannot even be
    /// read is in the answer too.
    pub fn check(&self) -> Result<Vec<String>, ReadError> {
        let found: Vec<String> = self.rows("PRAGMA integrity_check(100)", [], |row| row.get(0))?;
        let mut found: Vec<String> = found.into_iter().filter(|line| line != "ok").collect();
        // Rows of a damaged file may be anything: what SQLite says of it is the answer then.
        if !found.is_empty() {
            return Ok(found);
        }
        for rule in RULES.iter().filter(|rule| rule.since <= self.format) {
            let rows: Vec<String> = self.rows(rule.find, [], |row| row.get(0))?;
            let named = rows.iter().take(NAMED);
            found.extend(named.map(|row| rule.broken.replace("{}", row)));
            if rows.len() > NAMED {
                found.push(format!(
                    "{} (and {} more)",
                    rule.broken.replace("{}", "…"),
                    rows.len() - NAMED
                ));
            }
        }
        Ok(found)
    }
}
