//! The `urlize` filter: addresses in a text as HTML links.

use minijinja::value::{Kwargs, Rest};
use minijinja::{Error, State, Value, filters};

use super::arguments::arguments;
use super::budget::Budget;
use super::print::escape;

/// `urlize(trim_url_limit, nofollow, target, rel, extra_schemes)`.
pub(super) fn filter(
    budget: &Budget,
    state: &State,
    value: &Value,
    rest: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let given = arguments(&["trim_url_limit", "nofollow", "target", "rel", "extra_schemes"], &rest, &named)?;
    let text = filters::string(state, value)?.to_string();
    let mut relations: Vec<String> = given
        .get::<Option<String>>("rel")?
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    if given.get::<Option<bool>>("nofollow")?.unwrap_or(false) {
        relations.push("nofollow".to_owned());
    }
    relations.push("noopener".to_owned());
    relations.sort();
    relations.dedup();
    let target = given.get::<Option<String>>("target")?;
    let links = Links {
        longest: given.get::<Option<usize>>("trim_url_limit")?.unwrap_or(usize::MAX),
        attributes: format!(
            " rel=\"{}\"{}",
            escape(&relations.join(" ")),
            target.map(|target| format!(" target=\"{}\"", escape(&target))).unwrap_or_default()
        ),
        schemes: given.get::<Option<Vec<String>>>("extra_schemes")?.unwrap_or_default(),
    };
    let mut linked = String::with_capacity(text.len());
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_end_matches(char::is_whitespace);
        links.push(&mut linked, word);
        linked.push_str(&part[word.len()..]);
        budget.lines(&linked, 0, 0)?;
    }
    Ok(Value::from_safe_string(linked))
}

struct Links {
    longest: usize,
    attributes: String,
    schemes: Vec<String>,
}

impl Links {
    /// Appends a word, as a link where it is one, with the punctuation around it outside.
    fn push(&self, linked: &mut String, word: &str) {
        let middle = word.trim_start_matches(['(', '<']);
        let (head, middle) = (&word[..word.len() - middle.len()], middle);
        let mut end = middle.trim_end_matches([')', '>', '.', ',', '\n']).len();
        // A bracket opened inside the address is closed inside it too.
        for (open, close) in [('(', ')'), ('<', '>')] {
            while middle[..end].matches(open).count() > middle[..end].matches(close).count() {
                let Some(offset) = middle[end..].find(close) else { break };
                end += offset + close.len_utf8();
            }
        }
        let (middle, tail) = middle.split_at(end);
        linked.push_str(&escape(head));
        match self.link(middle) {
            Some(link) => linked.push_str(&link),
            None => linked.push_str(&escape(middle)),
        }
        linked.push_str(&escape(tail));
    }

    fn link(&self, word: &str) -> Option<String> {
        let lower = word.to_ascii_lowercase();
        let shown = || {
            let mut short: String = word.chars().take(self.longest).collect();
            if short.len() < word.len() {
                short.push_str("...");
            }
            escape(&short)
        };
        let link =
            |address: &str| format!("<a href=\"{}\"{}>{}</a>", escape(address), self.attributes, shown());
        if lower.starts_with("https://") || lower.starts_with("http://") {
            return Some(link(word));
        }
        if is_domain(&lower) {
            return Some(link(&format!("https://{word}")));
        }
        let (address, is_mail) = match lower.strip_prefix("mailto:") {
            Some(_) => (&word["mailto:".len()..], true),
            None => (word, false),
        };
        if is_mail_address(address) && (is_mail || !lower.starts_with("www.")) {
            let address = escape(address);
            return Some(format!("<a href=\"mailto:{address}\">{address}</a>"));
        }
        self.schemes
            .iter()
            .any(|scheme| word.len() > scheme.len() && word.starts_with(scheme))
            .then(|| link(word))
    }
}

/// A bare host as people write it, with or without a path: `www.…` or one of the old top-level domains.
fn is_domain(word: &str) -> bool {
    let host = word.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let labels = |host: &str| {
        host.split('.').all(|label| {
            !label.is_empty()
                && label.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '%'))
        })
    };
    let known = [".com", ".net", ".int", ".edu", ".gov", ".org", ".info", ".mil"];
    labels(host)
        && ((host.starts_with("www.") && host.len() > 4)
            || known.iter().any(|domain| host.len() > domain.len() && host.ends_with(domain)))
}

fn is_mail_address(word: &str) -> bool {
    word.split_once('@').is_some_and(|(user, host)| {
        !user.is_empty()
            && host.contains('.')
            && !host.starts_with('.')
            && host.split('.').all(|label| !label.is_empty())
            && host.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '.' | '-'))
            && !user.contains(char::is_whitespace)
    })
}
