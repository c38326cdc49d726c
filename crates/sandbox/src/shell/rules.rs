//! The rules of a worker's `toolsets.shell` for one command.
//!
//! The longest matching pattern decides, at any position in the list, so the order of rules doesn't matter. Of
//! equally long ones the one with fewer wildcards decides, then the strictest.

use super::{
    dangerous,
    paths::Within,
    words::{self, NotWords, Word},
};
use crate::confine::working_directory;
use llm_do_core::{
    authority::{Access, Authority, Place, VirtualPath},
    gate::Rule,
};
use serde::Deserialize;

/// `toolsets.shell` as written in the file.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Written {
    #[serde(default)]
    rules: Vec<WrittenRule>,
    default: Option<WrittenDefault>,
}

#[derive(Clone, Debug, Deserialize)]
struct WrittenRule {
    pattern: String,
    #[serde(default = "yes")]
    approval_required: bool,
    sandbox_paths: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct WrittenDefault {
    #[serde(default = "yes")]
    approval_required: bool,
}

fn yes() -> bool {
    true
}

/// The rules of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<CommandRule>,
    default: Option<Rule>,
}

/// A rule.
#[derive(Clone, Debug)]
struct CommandRule {
    pattern: Vec<Word>,
    rule: Rule,
    /// The places of the rule, or `None` for all places of the worker's processes.
    paths: Option<Vec<VirtualPath>>,
    /// The origin of the rule, for people.
    place: String,
}

/// The verdict of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// The decision: the command runs, asks, or is blocked.
    pub(crate) rule: Rule,
    /// The rule or other reason that decided.
    pub(crate) why: String,
    /// The places that the process is confined to, within its worker's view.
    pub(crate) within: Option<Vec<VirtualPath>>,
    /// True if it asks because of dangerous arguments, regardless of any rule.
    pub(crate) dangerous: bool,
}

impl Rules {
    /// Reads a configuration.
    ///
    /// # Errors
    /// A pattern that is not a command, or an invalid path.
    pub(crate) fn new(written: Written) -> Result<Self, String> {
        let rule = |asks: bool| if asks { Rule::Ask } else { Rule::PreApproved };
        let rules = written.rules.into_iter().enumerate().map(|(index, written)| {
            let place = format!("toolsets.shell.rules[{index}]");
            let pattern = words::parse(&written.pattern).map_err(|error: NotWords| {
                format!("the pattern of {place} is not the beginning of a command: {error}")
            })?;
            let paths = written.sandbox_paths.map(|paths| {
                let parsed = paths.iter().map(|path| VirtualPath::parse(path));
                parsed
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| format!("{place}.sandbox_paths: {error}"))
            });
            let place = format!("{place} ({})", words::line(&pattern));
            Ok(CommandRule {
                pattern,
                rule: rule(written.approval_required),
                paths: paths.transpose()?,
                place,
            })
        });
        let default = written.default.map(|default| rule(default.approval_required));
        Ok(Self { rules: rules.collect::<Result<_, String>>()?, default })
    }

    /// Returns true if no command could ever run.
    pub(crate) fn allow_nothing(&self) -> bool {
        self.rules.is_empty() && self.default.is_none()
    }

    /// Returns the rule of the command that needs the least approval.
    pub(crate) fn least(&self) -> Rule {
        self.rules.iter().map(|rule| rule.rule).chain(self.default).min().unwrap_or(Rule::Blocked)
    }

    /// Lists the commands that rules name, for people and models.
    pub(crate) fn allowed(&self) -> String {
        let patterns = self.rules.iter().map(|rule| format!("`{}`", words::line(&rule.pattern)));
        let mut patterns: Vec<String> = patterns.collect();
        patterns.dedup();
        patterns.join(", ")
    }

    /// Returns true if commands that no rule matches may run, with or without asking.
    pub(crate) fn allows_others(&self) -> bool {
        self.default.is_some()
    }

    /// Decides about a command. `unconfined` is true if only these rules limit its process.
    pub(crate) fn judge(&self, command: &[Word], authority: &Authority, unconfined: bool) -> Judgement {
        let cwd = working_directory(authority);
        let matching = || self.rules.iter().filter(|rule| rule.matches(command));
        let Some(rank) = matching().map(CommandRule::rank).max() else {
            return self.otherwise(command, authority);
        };
        let narrowest = || matching().filter(|rule| rule.rank() == rank);
        let mut out = None;
        let holding = narrowest().filter(|rule| {
            let Some(paths) = &rule.paths else { return true };
            let within = Within { paths, authority, cwd: &cwd, strict: unconfined };
            match within.leaves(&command[1..]) {
                None => true,
                Some(text) => {
                    out.get_or_insert_with(|| (text, rule.place.clone()));
                    false
                }
            }
        });
        let Some(rule) = holding.max_by_key(|rule| rule.rule) else {
            let (text, place) = out.unwrap_or_default();
            let why = format!("{place}: `{text}` is outside of its `sandbox_paths`");
            return Judgement { rule: Rule::Ask, why, within: None, dangerous: false };
        };
        let judgement = Judgement {
            rule: rule.rule,
            why: rule.place.clone(),
            within: rule.paths.clone(),
            dangerous: false,
        };
        judgement.with_dangers(command, rule.spelled(), authority)
    }

    fn otherwise(&self, command: &[Word], authority: &Authority) -> Judgement {
        if let Some(rule) = self.default {
            let judgement =
                Judgement { rule, why: "toolsets.shell.default".to_owned(), within: None, dangerous: false };
            return judgement.with_dangers(command, 0, authority);
        }
        let program = command.first().map(Word::to_string).unwrap_or_default();
        let why = match self.allowed().as_str() {
            "" => "toolsets.shell has neither rules nor a default, so that no command may run".to_owned(),
            allowed => format!(
                "no rule of toolsets.shell speaks of this `{program}` command; there are rules for {allowed}, each \
                 with further arguments"
            ),
        };
        Judgement { rule: Rule::Blocked, why, within: None, dangerous: false }
    }
}

impl Judgement {
    /// Changes the decision to ask if there is a known danger, even if a rule allows the command.
    fn with_dangers(mut self, command: &[Word], spelled: usize, authority: &Authority) -> Self {
        if let Some(danger) = danger(command, spelled, authority) {
            self.rule = self.rule.max(Rule::Ask);
            self.why = format!("{}: {danger}", self.why);
            self.dangerous = true;
        }
        self
    }
}

/// Describes the danger of a command. The author of the worker has written its first `spelled` words.
pub(crate) fn danger(command: &[Word], spelled: usize, authority: &Authority) -> Option<String> {
    dangerous::find(command, spelled)
        .map(|danger| format!("`{}` {}", danger.what, danger.reason))
        .or_else(|| own_program(command, authority))
}

/// Describes the danger of a command whose standard input a model can write.
pub(crate) fn danger_of_input(command: &[Word], spelled: usize) -> Option<String> {
    dangerous::fed(command, spelled).map(|danger| format!("`{}` {}", danger.what, danger.reason))
}

/// Describes the danger of a program that the worker could have written itself.
fn own_program(command: &[Word], authority: &Authority) -> Option<String> {
    let program = command.first()?.text().filter(|program| program.contains('/'))?;
    let path = if program.starts_with('/') {
        program.to_owned()
    } else {
        format!("{}/{program}", working_directory(authority))
    };
    if VirtualPath::parse(&path).is_err() {
        return Some(format!("`{program}` is not a plain path"));
    }
    let place = Place::new(program);
    let extents = authority.bounds().extents();
    let real = program.starts_with('/')
        && extents.iter().any(|e| e.access == Access::Write && place.is_within(&e.place));
    (real || authority.locate(&path, Access::Write).is_ok())
        .then(|| format!("`{program}` is a program that this worker may change"))
}

impl CommandRule {
    /// Returns true if the words of the rule are a prefix of the command. A wildcard of the command matches nothing,
    /// because its expansion is unknown.
    fn matches(&self, command: &[Word]) -> bool {
        command.len() >= self.pattern.len()
            && self
                .pattern
                .iter()
                .zip(command)
                .all(|(pattern, word)| word.text().is_some_and(|text| pattern.matches(text)))
    }

    /// Returns the specificity of the rule: the number of its words, and of those without wildcards.
    fn rank(&self) -> (usize, usize) {
        (self.pattern.len(), self.pattern.iter().filter(|word| word.text().is_some()).count())
    }

    /// Returns the number of leading words that the rule spells.
    fn spelled(&self) -> usize {
        self.pattern.iter().take_while(|word| word.text().is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::authority::{Bounds, Extent, Mount, Network, Protection, View};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn authority() -> Authority {
        let root = Place::new("/p");
        let extents = vec![Extent { place: root.clone(), access: Access::Write }];
        let mount = |at: &str, place: &str, access| {
            Mount::new(VirtualPath::parse(at).unwrap(), Place::new(place), access)
        };
        let mounts = vec![mount("/", "/p", Access::Read), mount("/out", "/p/out", Access::Write)];
        let protection = Arc::new(Protection::new(root, [] as [String; 0]));
        Authority::new(Bounds::new(extents, Network::Off), View::new(mounts), protection)
    }

    fn rules(configuration: Value) -> Rules {
        Rules::new(serde_json::from_value(configuration).unwrap()).unwrap()
    }

    fn judge(rules: &Rules, command: &str) -> Judgement {
        rules.judge(&words::parse(command).unwrap(), &authority(), false)
    }

    fn said(rules: &Rules, command: &str) -> Rule {
        judge(rules, command).rule
    }

    #[test]
    fn patterns_are_whole_leading_words() {
        let rules = rules(json!({"rules": [
            {"pattern": "ls", "approval_required": false},
            {"pattern": "git diff", "approval_required": false},
            {"pattern": "wc"},
        ]}));
        for command in ["ls", "ls -l", "l's' x", "git diff", "git diff --stat a"] {
            assert_eq!(said(&rules, command), Rule::PreApproved, "{command}");
        }
        assert_eq!(said(&rules, "wc a"), Rule::Ask, "a rule asks if it does not say otherwise");
        for command in [
            "lsblk",
            "/bin/ls",
            "./ls",
            "'ls -l'",
            "git",
            "git difftool",
            "git 'diff --stat'",
            "git -C x diff",
            "l*",
            "git d*",
        ] {
            assert_eq!(said(&rules, command), Rule::Blocked, "{command}");
        }
        let blocked = judge(&rules, "lsblk -a");
        assert!(
            blocked.why.contains("`ls`, `git diff`, `wc`") && blocked.why.contains("lsblk"),
            "{blocked:?}"
        );
    }

    #[test]
    fn the_longest_pattern_decides_and_the_order_never_does() {
        let mut list = vec![
            json!({"pattern": "git", "approval_required": false}),
            json!({"pattern": "git push"}),
            json!({"pattern": "git push origin docs", "approval_required": false}),
            json!({"pattern": "npm run *"}),
            json!({"pattern": "npm run lint", "approval_required": false}),
            json!({"pattern": "cat", "approval_required": false}),
            json!({"pattern": "cat"}),
        ];
        for _ in 0..2 {
            let rules = rules(json!({"rules": list.clone()}));
            assert_eq!(said(&rules, "git log"), Rule::PreApproved);
            assert_eq!(said(&rules, "git push x"), Rule::Ask);
            assert_eq!(said(&rules, "git push origin docs"), Rule::PreApproved);
            assert_eq!(said(&rules, "npm run lint"), Rule::PreApproved);
            assert_eq!(said(&rules, "npm run x"), Rule::Ask);
            assert_eq!(said(&rules, "cat a"), Rule::Ask, "of two that say the same of words the strictest");
            list.reverse();
        }
    }

    #[test]
    fn the_default_is_for_what_no_rule_speaks_of() {
        let free = rules(json!({"default": {"approval_required": false}}));
        assert_eq!(said(&free, "ls"), Rule::PreApproved);
        assert_eq!(said(&free, "find . -delete"), Rule::Ask);
        assert_eq!(said(&free, "make"), Rule::PreApproved);
        assert_eq!(said(&free, "make x"), Rule::Ask);
        assert_eq!(said(&rules(json!({"default": {}})), "ls"), Rule::Ask);
        let nothing = rules(json!({}));
        assert_eq!(said(&nothing, "ls"), Rule::Blocked);
        assert!(nothing.allow_nothing());
    }

    #[test]
    fn dangers_ask_under_a_rule_that_allows() {
        let rules = rules(json!({"rules": [
            {"pattern": "find", "approval_required": false},
            {"pattern": "find . -delete", "approval_required": false},
            {"pattern": "make check", "approval_required": false},
            {"pattern": "/out/run", "approval_required": false},
            {"pattern": "out/run", "approval_required": false},
            {"pattern": "./run", "approval_required": false},
        ]}));
        assert_eq!(said(&rules, "find . -name x"), Rule::PreApproved);
        let asked = judge(&rules, "find . -exec id");
        assert_eq!(asked.rule, Rule::Ask);
        assert!(asked.why.contains("rules[0] (find): `find -exec` runs another program"), "{asked:?}");
        assert_eq!(said(&rules, "find . -delete"), Rule::Ask, "a flag asks although the pattern has it");
        assert_eq!(said(&rules, "make check"), Rule::PreApproved);
        assert_eq!(said(&rules, "make check CC=x"), Rule::Ask);
        assert_eq!(said(&rules, "/out/run"), Rule::Ask, "the worker may write it");
        assert_eq!(said(&rules, "out/run"), Rule::Ask);
        assert_eq!(said(&rules, "./run"), Rule::PreApproved);
        let all = super::tests::rules(json!({"default": {"approval_required": false}}));
        for program in
            ["out/run", "x/../out/run", "/p/out/run", "/out/../out/run", "./out//run", "../p/out/run"]
        {
            assert_eq!(said(&all, program), Rule::Ask, "{program}");
        }
        assert_eq!(said(&all, "/usr/bin/ls"), Rule::PreApproved);
    }

    #[test]
    fn paths_outside_of_a_rules_places_ask() {
        let rules = rules(json!({"rules": [
            {"pattern": "cat", "approval_required": false, "sandbox_paths": ["/notes", "data"]},
            {"pattern": "tee", "sandbox_paths": []},
        ]}));
        for command in [
            "cat notes/a",
            "cat /notes/a",
            "cat ./notes/a data/x",
            "cat --x=notes/a",
            "cat /p/notes/a",
            "cat notes/*",
            "cat bare",
        ] {
            let judged = judge(&rules, command);
            assert_eq!(judged.rule, Rule::PreApproved, "{command}: {judged:?}");
            assert_eq!(judged.within.as_ref().map(Vec::len), Some(2));
        }
        for command in [
            "cat /etc/passwd",
            "cat notes/../x",
            "cat .",
            "cat ..",
            "cat other/x",
            "cat notes/a other/b",
            "cat --x=/y",
            "cat --x=../y",
            "cat -I/y",
            "cat -vf/y",
            "cat -f../y",
            "cat /p/other",
            "cat /p/notes/../x",
            "cat notesx/a",
            "cat x:/y",
            "cat x=y=/z",
            "cat */x",
            "cat /",
            "cat -- ../x",
            "cat file:///x",
            "cat -vnotes/../../x",
            // The number of letters before the path is unknown.
            "cat -Inotes/a",
        ] {
            let judged = judge(&rules, command);
            assert_eq!(judged.rule, Rule::Ask, "{command}");
            assert!(judged.why.contains("outside of its `sandbox_paths`"), "{judged:?}");
            assert_eq!(judged.within, None, "who approves it approves it as it is");
        }
        let strictly = rules.judge(&words::parse("cat bare").unwrap(), &authority(), true);
        assert_eq!(strictly.rule, Rule::Ask, "where no kernel holds it every word may be a path");
    }

    #[test]
    fn configurations_that_mean_nothing_are_refused() {
        let error = |configuration| Rules::new(serde_json::from_value(configuration).unwrap()).unwrap_err();
        let said = error(json!({"rules": [{"pattern": "ls"}, {"pattern": "a | b"}]}));
        assert!(said.contains("toolsets.shell.rules[1]") && said.contains("`|`"), "{said}");
        let said = error(json!({"rules": [{"pattern": "ls", "sandbox_paths": ["../x"]}]}));
        assert!(said.contains("rules[0].sandbox_paths") && said.contains(".."), "{said}");
    }
}
