//! Pairing codes: in memory alone, each for one use within its time.

use bezel_context::CredentialId;
use jiff::{SignedDuration, Timestamp};

use crate::clients::Grant;
use crate::secret::Fingerprint;

/// How long a code works.
const LIFETIME: SignedDuration = SignedDuration::from_mins(5);
/// Codes that work at once.
pub(crate) const MOST_CODES: usize = 32;
/// How long it is known of a code that it worked once.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// The codes that were made.
#[derive(Debug, Default)]
pub(crate) struct Codes(Vec<Code>);

#[derive(Debug)]
struct Code {
    fingerprint: Fingerprint,
    expires_at: Timestamp,
    used: bool,
    grant: Grant,
}

/// Why a code does not work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoCode {
    Unknown,
    Expired,
    Used,
}

impl Codes {
    /// Takes a new code in; until when it works, or none where too many do already.
    pub(crate) fn add(
        &mut self,
        fingerprint: Fingerprint,
        grant: Grant,
        now: Timestamp,
    ) -> Option<Timestamp> {
        self.0
            .retain(|code| now.duration_since(code.expires_at) < REMEMBERED);
        let works = |code: &&Code| !code.used && now < code.expires_at;
        if self.0.iter().filter(works).count() >= MOST_CODES {
            return None;
        }
        if self.0.len() >= 4 * MOST_CODES {
            let oldest = self.0.iter().position(|code| !works(&code));
            oldest.map(|oldest| self.0.remove(oldest));
        }
        let expires_at = now + LIFETIME;
        self.0.push(Code {
            fingerprint,
            expires_at,
            used: false,
            grant,
        });
        Some(expires_at)
    }

    /// Uses a code up. Looks at every code, whichever it is.
    pub(crate) fn take(&mut self, shown: &Fingerprint, now: Timestamp) -> Result<Grant, NoCode> {
        let mut found = None;
        for (at, code) in self.0.iter().enumerate() {
            if code.fingerprint.matches(shown) {
                found = Some(at);
            }
        }
        let code = &mut self.0[found.ok_or(NoCode::Unknown)?];
        if code.used {
            return Err(NoCode::Used);
        }
        if now >= code.expires_at {
            return Err(NoCode::Expired);
        }
        code.used = true;
        Ok(code.grant.clone())
    }

    /// Makes a code work again that was used up for nothing.
    pub(crate) fn give_back(&mut self, shown: &Fingerprint) {
        for code in self
            .0
            .iter_mut()
            .filter(|code| code.fingerprint.matches(shown))
        {
            code.used = false;
        }
    }

    /// Forgets the codes that these clients made.
    pub(crate) fn forget_of(&mut self, clients: &[CredentialId]) {
        self.0.retain(|code| {
            let maker = code.grant.maker.as_ref();
            !maker.is_some_and(|maker| clients.contains(maker))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{Shown, new_code, read};

    fn code(codes: &mut Codes, now: Timestamp) -> Fingerprint {
        let (shown, fingerprint) = new_code();
        codes.add(fingerprint, Grant::of_owner("me"), now).unwrap();
        assert_eq!(read(&shown), Shown::Code(fingerprint));
        fingerprint
    }

    #[test]
    fn a_code_works_once_and_only_for_five_minutes() {
        let (mut codes, now) = (Codes::default(), Timestamp::UNIX_EPOCH);
        let (first, second) = (code(&mut codes, now), code(&mut codes, now));
        assert!(
            codes
                .take(&first, now + SignedDuration::from_secs(299))
                .is_ok()
        );
        assert_eq!(codes.take(&first, now).unwrap_err(), NoCode::Used);
        let late = now + SignedDuration::from_secs(300);
        assert_eq!(codes.take(&second, late).unwrap_err(), NoCode::Expired);
        assert_eq!(codes.take(&new_code().1, now).unwrap_err(), NoCode::Unknown);
        codes.give_back(&first);
        assert!(codes.take(&first, now).is_ok());
    }

    #[test]
    fn many_codes_at_once_are_refused_and_old_ones_take_no_memory() {
        let (mut codes, mut now) = (Codes::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..MOST_CODES {
            code(&mut codes, now);
        }
        let one_more = codes.add(new_code().1, Grant::of_owner("me"), now);
        assert_eq!(one_more, None);
        now += LIFETIME;
        for _ in 0..1000 {
            now += LIFETIME / 8;
            code(&mut codes, now);
        }
        assert!(codes.0.len() <= 4 * MOST_CODES + 1);
    }

    #[test]
    fn a_code_goes_with_the_client_that_made_it() {
        let (mut codes, now) = (Codes::default(), Timestamp::UNIX_EPOCH);
        let (_, fingerprint) = new_code();
        let maker = CredentialId::new("a");
        let grant = Grant {
            maker: Some(maker.clone()),
            ..Grant::of_owner("me")
        };
        codes.add(fingerprint, grant, now).unwrap();
        codes.forget_of(&[maker]);
        assert_eq!(codes.take(&fingerprint, now).unwrap_err(), NoCode::Unknown);
    }
}
