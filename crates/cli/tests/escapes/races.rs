//! Races: a thread swaps a path with a link to the outside in a loop while the file tools use it.

use crate::{
    attempt::{Attack, Attempt, Group, Layer::Files, Outcome, Tried, Who::Project, must},
    world::{World, wait},
};
use llm_do_core::{
    authority::{Access, Authority, Located},
    vfs::{FileSystem, FsError},
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    fs,
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

/// Number of times that the operations of a race must meet each state for the race to count.
const MET: usize = 20;

const BY_DESCRIPTOR: &str = "operations act on a descriptor and a single name";

/// The most repetitions of a race's operations on a busy machine, until it has met both states.
const MAX_REPEATS: usize = 20;

/// Numbers of operations that met each state.
#[derive(Default)]
struct Met {
    inside: usize,
    refused: usize,
}

impl Met {
    fn both(&self) -> bool {
        self.inside > MET && self.refused > MET
    }
}

/// Runs operations while a thread exchanges pairs of names of the project in a loop.
fn race(
    world: &World,
    operations: usize,
    swap: &[(&str, &str)],
    mut operation: impl FnMut(usize) -> Result<(), FsError>,
) -> Tried {
    world.arm();
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let met = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (x, y) in swap {
                    let _ =
                        renameat_with(CWD, world.project(x), CWD, world.project(y), RenameFlags::EXCHANGE);
                }
                let done = swaps.fetch_add(1, Ordering::Relaxed);
                // On a single processor the operations need a turn in each state. Two or three swaps restore the
                // names, so the thread yields after a number of swaps that neither divides.
                if done.is_multiple_of(17) {
                    thread::yield_now();
                }
            }
        });
        let mut met = Met::default();
        for round in 0..operations * MAX_REPEATS {
            if round >= operations && met.both() {
                break;
            }
            match operation(round) {
                Ok(()) => met.inside += 1,
                Err(_) => met.refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
        met
    });
    let swaps = swaps.load(Ordering::Relaxed);
    let Met { inside, refused } = met;
    must(
        swaps > MET as u64 && met.both(),
        format!("the race met one state only: {swaps} swaps, {inside} inside, {refused} refused"),
    )?;
    // No copy or move brought anything in either.
    for entry in walk(&world.project("")) {
        if !entry.ends_with(".env") && !entry.to_string_lossy().contains("/.llm-do/") {
            world.disclose(fs::read_to_string(&entry).unwrap_or_default());
        }
    }
    Ok(Outcome::Refused)
}

/// Replaces a name atomically.
fn put_back(world: &World, name: &str, make: impl FnOnce(&std::path::Path) -> std::io::Result<()>) {
    let fresh = world.project("rw/fresh");
    if make(&fresh).and_then(|()| fs::rename(&fresh, world.project(name))).is_err() {
        let _ = fs::remove_file(&fresh);
    }
}

/// The files below a folder. Links are not followed.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(walk(&entry.path()));
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files
}

fn at(authority: &Authority, path: &str, access: Access) -> Located {
    authority.locate(path, access).expect("the path is allowed; what lies there is another matter")
}

/// `folder` and `file` in the project, each beside a link to the outside.
fn prepare(world: &World) -> Arc<Authority> {
    fs::create_dir(world.project("folder")).unwrap();
    world.put("folder/canary.txt", "inside");
    world.put("file", "inside");
    symlink("../outside", world.project("link")).unwrap();
    symlink("../outside/canary.txt", world.project("file-link")).unwrap();
    world.whole()
}

const FOLDER: [(&str, &str); 1] = [("folder", "link")];
const FILE: [(&str, &str); 1] = [("file", "file-link")];

fn read(world: &World, authority: &Authority, path: &str) -> Result<(), FsError> {
    let at = at(authority, path, Access::Read);
    let (bytes, _) = wait(world.files().read(&at, 0, 1000))?;
    world.disclose(String::from_utf8_lossy(&bytes));
    Ok(())
}

fn write(world: &World, authority: &Authority, path: &str) -> Result<(), FsError> {
    wait(world.files().write(&at(authority, path, Access::Write), b"inside"))
}

pub(crate) fn group() -> Group {
    let races: [(&'static str, &'static str, Attack); 12] = [
        ("reading below a folder that is swapped with a link", BY_DESCRIPTOR, |world| {
            let authority = prepare(world);
            race(world, 16_000, &FOLDER, |_| read(world, &authority, "/folder/canary.txt"))
        }),
        ("reading a file that is swapped with a link", "the file is opened with `O_NOFOLLOW`", |world| {
            let authority = prepare(world);
            race(world, 16_000, &FILE, |_| read(world, &authority, "/file"))
        }),
        ("writing below a folder that is swapped with a link", BY_DESCRIPTOR, |world| {
            let authority = prepare(world);
            race(world, 6_000, &FOLDER, |round| {
                write(
                    world,
                    &authority,
                    if round % 2 == 0 { "/folder/canary.txt" } else { "/folder/new.txt" },
                )
            })
        }),
        (
            "writing and appending to a file that is swapped with a link",
            "a new file is renamed into place",
            |world| {
                let authority = prepare(world);
                let at = at(&authority, "/file", Access::Write);
                // A write replaces the link, so both names are restored now and then.
                race(world, 3_000, &FILE, |round| {
                    if round % 16 == 0 {
                        put_back(world, "file", |at| fs::write(at, "inside"));
                        put_back(world, "file-link", |at| symlink("../outside/canary.txt", at));
                    }
                    if round % 2 == 0 {
                        return write(world, &authority, "/file");
                    }
                    // A write overwrites what was appended, so the file stays short.
                    wait(world.files().append(&at, b"more"))
                })
            },
        ),
        ("listing and searching below a folder that is swapped with a link", BY_DESCRIPTOR, |world| {
            let authority = prepare(world);
            let at = at(&authority, "/folder", Access::Read);
            race(world, 14_000, &FOLDER, |_| {
                let found = wait(world.files().walk(&at, 100))?;
                for entry in &found {
                    world.disclose(entry.path.as_str());
                    if entry.path.as_str().contains("passwd") {
                        world.disclose(&world.secret);
                    }
                }
                Ok(())
            })
        }),
        ("deleting below a folder that is swapped with a link", BY_DESCRIPTOR, |world| {
            let authority = prepare(world);
            let at = at(&authority, "/folder/canary.txt", Access::Write);
            race(world, 8_000, &FOLDER, |round| {
                if round % 2 == 0 {
                    wait(world.files().delete(&at))
                } else {
                    write(world, &authority, "/folder/canary.txt")
                }
            })
        }),
        ("copying from a folder that is swapped with a link", BY_DESCRIPTOR, |world| {
            let authority = prepare(world);
            let from = at(&authority, "/folder/canary.txt", Access::Read);
            race(world, 8_000, &FOLDER, |_| {
                let copied = wait(world.files().copy(&from, &at(&authority, "/copy", Access::Write)));
                world.disclose(fs::read_to_string(world.project("copy")).unwrap_or_default());
                let _ = fs::remove_file(world.project("copy"));
                copied
            })
        }),
        ("copying into a folder that is swapped with a link", BY_DESCRIPTOR, |world| {
            let authority = prepare(world);
            let from = at(&authority, "/notes/plan.md", Access::Read);
            let to = at(&authority, "/folder/copy", Access::Write);
            race(world, 6_000, &FOLDER, |_| {
                let copied = wait(world.files().copy(&from, &to));
                for folder in ["folder", "link"] {
                    if fs::symlink_metadata(world.project(folder)).is_ok_and(|found| found.is_dir()) {
                        let _ = fs::remove_file(world.project(folder).join("copy"));
                    }
                }
                copied
            })
        }),
        ("moving out of and into a folder that is swapped with a link", BY_DESCRIPTOR, |world| {
            let authority = prepare(world);
            let inside = at(&authority, "/folder/canary.txt", Access::Write);
            let away = at(&authority, "/away.txt", Access::Write);
            race(world, 9_000, &FOLDER, |round| {
                let (from, to) = if round % 2 == 0 { (&inside, &away) } else { (&away, &inside) };
                let moved = wait(world.files().rename(from, to));
                world.disclose(fs::read_to_string(world.project("away.txt")).unwrap_or_default());
                moved
            })
        }),
        ("reading, writing and creating folders while a parent folder is swapped", BY_DESCRIPTOR, |world| {
            world.put("a/b/c/file", "inside");
            world.put("x/b/c/other", "inside");
            symlink("../../outside", world.project("x/out")).unwrap();
            fs::create_dir(world.outside("c")).unwrap();
            fs::write(world.outside("c/file"), &world.secret).unwrap();
            let authority = world.whole();
            // `a/b` becomes a link to the outside, and `a` becomes `x`, which has no such file.
            race(world, 6_000, &[("a/b", "x/out"), ("a", "x")], |round| match round % 3 {
                0 => read(world, &authority, "/a/b/c/file"),
                1 => write(world, &authority, "/a/b/c/file"),
                _ => wait(world.files().make_directory(&at(&authority, "/a/b/c/d", Access::Write))),
            })
        }),
        (
            "a mount root that is swapped with a link",
            "the mount root is opened without following links",
            |world| {
                prepare(world);
                let authority = world.authority(vec![world.mount("/m", "project/folder", Access::Write)]);
                race(world, 6_000, &FOLDER, |round| {
                    if round % 2 == 0 {
                        read(world, &authority, "/m/canary.txt")
                    } else {
                        write(world, &authority, "/m/canary.txt")
                    }
                })
            },
        ),
        (
            "a file that is swapped with a hard link to a file that defines the program",
            "a new file is renamed into place",
            |world| {
                prepare(world);
                let worker = world.put("workers/x.worker", "as it was");
                fs::hard_link(&worker, world.project("notes/hard")).unwrap();
                fs::create_dir(world.project("notes/folder")).unwrap();
                let authority = world.whole();
                let done =
                    race(world, 3_000, &[("file", "notes/hard"), ("file", "notes/folder")], |round| {
                        if round % 16 == 0 {
                            put_back(world, "notes/hard", |at| fs::hard_link(&worker, at));
                        }
                        write(world, &authority, "/file")
                    })?;
                must(world.text("workers/x.worker") == "as it was", "ESCAPE: the worker has changed")?;
                Ok(match done {
                    Outcome::Refused => Outcome::Inside,
                    other => other,
                })
            },
        ),
    ];
    Group {
        title: "Races",
        about: "A thread swaps two names of the project in a loop (`renameat2`), one of which leads outside, \
                during 3,000 to 16,000 operations in each race, 101,000 in all, and more on a busy machine. \
                A race counts only if operations met both states.",
        attempts: races
            .into_iter()
            .map(|(name, mechanism, attack)| Attempt::new(Project, Files, name, mechanism, attack))
            .collect(),
    }
}
