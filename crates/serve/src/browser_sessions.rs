//! Sessions of pages in a browser.
//!
//! A session has two secrets. The cookie holds one, which scripts can't read. The page keeps the other in the storage of its
//! origin and sends it in a header. Browsers send cookies to every port of a host, and every port can set them, but no other
//! origin has the page's secret: a cookie alone neither signs in nor signs the page in as somebody else.

use crate::token::Token;
use llm_do::core::schema::sha256;
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The time after which a session without requests ends.
pub(crate) const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions of one token. A further one ends the one that was unused for longest.
const MOST: usize = 64;

/// The sessions of a service. They end with its process.
#[derive(Default)]
pub(crate) struct BrowserSessions(Mutex<HashMap<Hash, BrowserSession>>);

/// The SHA-256 hash of a secret, in hexadecimal digits.
type Hash = String;

struct BrowserSession {
    /// The hash of the page's secret.
    page: Hash,
    token: Arc<Token>,
    used: Instant,
}

/// The two secrets of a new session.
pub(crate) struct NewSession {
    pub(crate) cookie: String,
    pub(crate) page: String,
}

impl BrowserSessions {
    /// The sessions that have not ended by now.
    fn lasting(&self, now: Instant) -> MutexGuard<'_, HashMap<Hash, BrowserSession>> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| now.duration_since(session.used) < IDLE);
        sessions
    }

    /// Begins a session with what that token allows.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn begin(&self, token: &Arc<Token>, now: Instant) -> io::Result<NewSession> {
        let new = NewSession { cookie: secret()?, page: secret()? };
        let mut sessions = self.lasting(now);
        let of_token = sessions.iter().filter(|(_, session)| session.token.name() == token.name());
        let (count, oldest) =
            of_token.fold((0, None::<(&Hash, Instant)>), |(count, oldest), (hash, session)| {
                let is_older = oldest.is_none_or(|(_, used)| session.used < used);
                (count + 1, if is_older { Some((hash, session.used)) } else { oldest })
            });
        if let (true, Some((oldest, _))) = (count >= MOST, oldest) {
            let oldest = oldest.clone();
            sessions.remove(&oldest);
        }
        let session =
            BrowserSession { page: sha256(new.page.as_bytes()), token: Arc::clone(token), used: now };
        sessions.insert(sha256(new.cookie.as_bytes()), session);
        Ok(new)
    }

    /// The token of the session with these two secrets. Hashes are compared, so that the time of the comparison says nothing
    /// about the secrets.
    pub(crate) fn find(&self, cookie: &str, page: &str, now: Instant) -> Option<Arc<Token>> {
        let mut sessions = self.lasting(now);
        let session = sessions.get_mut(&sha256(cookie.as_bytes()))?;
        if session.page != sha256(page.as_bytes()) {
            return None;
        }
        session.used = now;
        Some(Arc::clone(&session.token))
    }

    /// Ends the session with that cookie.
    pub(crate) fn end(&self, cookie: &str, now: Instant) {
        self.lasting(now).remove(&sha256(cookie.as_bytes()));
    }
}

/// 256 random bits as hexadecimal digits.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Arc<Token> {
        Arc::new(Token::of_owner())
    }

    #[test]
    fn a_session_needs_both_secrets_and_those_of_one_session() {
        let (sessions, now) = (BrowserSessions::default(), Instant::now());
        let one = sessions.begin(&token(), now).expect("random numbers");
        let two = sessions.begin(&token(), now).expect("random numbers");
        assert!(sessions.find(&one.cookie, &one.page, now).is_some());
        for (cookie, page) in [
            (&*one.cookie, ""),
            (&one.cookie, &two.page),
            (&one.page, &one.cookie),
            ("", &one.page),
            (&sha256(one.cookie.as_bytes()), &one.page),
        ] {
            assert!(sessions.find(cookie, page, now).is_none(), "{cookie} {page}");
        }
        sessions.end(&one.cookie, now);
        assert!(sessions.find(&one.cookie, &one.page, now).is_none());
        assert!(sessions.find(&two.cookie, &two.page, now).is_some());
    }

    #[test]
    fn a_session_ends_without_requests_and_not_with_them() {
        let (sessions, begun) = (BrowserSessions::default(), Instant::now());
        let used = sessions.begin(&token(), begun).expect("random numbers");
        let unused = sessions.begin(&token(), begun).expect("random numbers");
        let later = begun + IDLE - Duration::from_secs(1);
        assert!(sessions.find(&used.cookie, &used.page, later).is_some());
        let later = begun + IDLE + Duration::from_secs(1);
        assert!(sessions.find(&used.cookie, &used.page, later).is_some());
        assert!(sessions.find(&unused.cookie, &unused.page, later).is_none());
        assert!(sessions.find(&used.cookie, &used.page, later + IDLE).is_none());
    }

    #[test]
    fn the_session_that_was_unused_for_longest_gives_way() {
        let (sessions, begun) = (BrowserSessions::default(), Instant::now());
        let at = |second: usize| begun + Duration::from_secs(u64::try_from(second).expect("small"));
        let all: Vec<NewSession> =
            (0..MOST).map(|second| sessions.begin(&token(), at(second)).expect("random numbers")).collect();
        let now = at(MOST);
        assert!(sessions.find(&all[0].cookie, &all[0].page, now).is_some(), "used again");
        sessions.begin(&token(), now).expect("random numbers");
        assert!(sessions.find(&all[0].cookie, &all[0].page, now).is_some());
        assert!(sessions.find(&all[1].cookie, &all[1].page, now).is_none());
        assert!(sessions.find(&all[2].cookie, &all[2].page, now).is_some());
    }
}
