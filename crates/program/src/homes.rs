//! The home directories of people (`docs/reference/sandbox.md`).
//!
//! The variable `HOME` is not enough: a service may have another one than the account it runs as, and a process of root
//! may serve a folder of somebody else.

use llm_do_core::authority::Place;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The list of accounts of a Unix system.
const ACCOUNTS: &str = "/etc/passwd";
/// The numbers of accounts of people, besides root.
const PEOPLE: std::ops::Range<u32> = 1000..60_000;

/// Returns `home`, which the environment names, and the home directories of root, of the people of this machine and of
/// the account of this process.
pub(crate) fn of(home: Option<&Path>) -> Vec<Place> {
    let accounts = fs::read_to_string(ACCOUNTS).unwrap_or_default();
    let listed = of_accounts(&accounts, own_account());
    let mut homes: Vec<Place> =
        home.map(Path::to_owned).into_iter().chain(listed).filter_map(place).collect();
    homes.dedup();
    homes
}

/// Returns the number of the account of this process.
fn own_account() -> Option<u32> {
    #[cfg(unix)]
    let own = Some(rustix::process::geteuid().as_raw());
    #[cfg(not(unix))]
    let own = None;
    own
}

/// Reads the home directories in a list of accounts. `own` is the number of the process's account.
fn of_accounts(accounts: &str, own: Option<u32>) -> impl Iterator<Item = PathBuf> {
    accounts.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split(':').collect();
        let number: u32 = fields.get(2)?.parse().ok()?;
        let home = Path::new(fields.get(5)?);
        let is_person = number == 0 || Some(number) == own || PEOPLE.contains(&number);
        (is_person && home.is_absolute() && home != Path::new("/")).then(|| home.to_owned())
    })
}

/// Returns a directory with its links resolved, or as written if it can't be read.
fn place(home: PathBuf) -> Option<Place> {
    Some(Place::new(fs::canonicalize(&home).unwrap_or(home).to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_those_of_people_and_of_the_own_account() {
        let accounts = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n\
                        web:x:33:33::/var/www:/usr/sbin/nologin\nada:x:1000:1000:Ada,,,:/home/ada:/bin/zsh\n\
                        nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\nodd:x:1001:1001:::/bin/sh\n\
                        top:x:1002:1002::/:/bin/sh\nshort:x:1003\n\n";
        let homes =
            |own| of_accounts(accounts, Some(own)).map(|home| home.display().to_string()).collect::<Vec<_>>();
        assert_eq!(homes(1000), ["/root", "/home/ada"]);
        assert_eq!(homes(33), ["/root", "/var/www", "/home/ada"]);
    }

    #[test]
    fn the_home_of_the_environment_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let homes = of(Some(folder.path()));
        assert_eq!(homes[0].as_str(), fs::canonicalize(folder.path()).unwrap().to_str().unwrap());
    }
}
