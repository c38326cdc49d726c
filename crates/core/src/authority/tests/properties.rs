//! Properties of every authority and every narrowing. The names are few, so that random values overlap.

use super::*;
use proptest::prelude::*;

fn any_access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Read), Just(Write)]
}

fn any_place() -> impl Strategy<Value = Place> {
    let name = prop::sample::select(vec!["a", "b", "templates", ".env", "x.worker", "ab"]);
    (prop::sample::select(vec!["/p", "/p", "/q", ""]), prop::collection::vec(name, 0..3))
        .prop_map(|(root, names)| place(&format!("{root}/{}", names.join("/"))))
}

fn any_path() -> impl Strategy<Value = VirtualPath> {
    let name = prop::sample::select(vec!["a", "b", "templates", ".env", "x.worker", "ab"]);
    prop::collection::vec(name, 0..4).prop_map(|names| at(&names.join("/")))
}

fn any_mount() -> impl Strategy<Value = Mount> {
    let suffixes = prop::sample::select(vec![
        vec![],
        vec![],
        vec!["b".to_owned()],
        vec!["ab".to_owned(), "a".to_owned()],
    ]);
    (any_path(), any_place(), any_access(), suffixes)
        .prop_map(|(at, place, access, suffixes)| Mount { suffixes, ..Mount::new(at, place, access) })
}

fn any_network() -> impl Strategy<Value = Network> {
    prop_oneof![
        Just(Network::Off),
        Just(Network::On),
        prop::collection::vec(crate::authority::domain::tests::any_domain(), 0..3).prop_map(Network::Domains),
    ]
}

fn any_bounds() -> impl Strategy<Value = Bounds> {
    let extents = prop::collection::vec(
        (any_place(), any_access()).prop_map(|(place, access)| Extent { place, access }),
        0..5,
    );
    (extents, any_network()).prop_map(|(extents, network)| Bounds::new(extents, network))
}

fn any_authority() -> impl Strategy<Value = Authority> {
    (any_bounds(), prop::collection::vec(any_mount(), 0..5)).prop_map(|(bounds, mounts)| {
        Authority::new(bounds, View::new(mounts), Arc::new(Protection::new(place("/p"), [])))
    })
}

fn any_narrowing() -> impl Strategy<Value = Narrowing> {
    (
        prop::collection::vec(any_mount(), 0..3),
        any::<bool>(),
        prop::collection::vec(any_path(), 0..3),
        any::<bool>(),
        prop::option::of(any_network()),
        any::<bool>(),
    )
        .prop_map(|(mounts, declared, restrict, readonly, network, foreign)| {
            let mounts = if declared { mounts } else { Vec::new() };
            Narrowing {
                mounts,
                declared,
                approvals: Approvals::default(),
                restrict,
                readonly,
                network,
                foreign,
                handed: Vec::new(),
            }
        })
}

/// The places that an authority reaches through the test paths, with the access.
fn reach(authority: &Authority, paths: &[VirtualPath]) -> Vec<(Place, Access)> {
    let mut reached: Vec<_> = paths
        .iter()
        .flat_map(|path| [Read, Write].map(|access| (path, access)))
        .filter_map(|(path, access)| {
            let located = authority.locate(path.as_str(), access).ok()?;
            located.admits_file(&located.rest).is_ok().then(|| (located.place(), access))
        })
        .collect();
    reached.sort_unstable_by(|a, b| (a.0.as_str(), a.1).cmp(&(b.0.as_str(), b.1)));
    reached.dedup();
    reached
}

/// Every path of up to five names of the small world would be thousands; those of up to three are enough to meet every
/// mount and two names below the deepest of them are added for each.
fn paths(authorities: &[&Authority]) -> Vec<VirtualPath> {
    let names = ["a", "b", "templates", ".env", "x.worker", "ab"];
    let mut all = vec![VirtualPath::root()];
    let mounts = authorities.iter().flat_map(|a| a.view().mounts().iter().map(|m| m.at.clone()));
    let starts: Vec<VirtualPath> = mounts.chain([VirtualPath::root()]).collect();
    for start in starts {
        all.push(start.clone());
        for first in names {
            all.push(start.join(first));
            for second in names {
                all.push(start.join(first).join(second));
                all.push(start.join(first).join(second).join("a"));
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn authority_is_the_same_after_it_was_written_down(authority in any_authority()) {
        let written = serde_json::to_string(&authority).unwrap();
        prop_assert_eq!(serde_json::from_str::<Authority>(&written).unwrap(), authority);
    }

    #[test]
    fn narrowing_bounds_is_what_both_allow(a in any_bounds(), b in any_bounds(), c in any_bounds(), at in any_place(), access in any_access()) {
        let both = a.narrow(&b);
        prop_assert!(both.is_within(&a) && both.is_within(&b));
        prop_assert_eq!(&both, &b.narrow(&a));
        prop_assert_eq!(a.narrow(&b).narrow(&c), a.narrow(&b.narrow(&c)));
        prop_assert_eq!(&a.narrow(&a), &a);
        prop_assert_eq!(&both.narrow(&b), &both);
        let holds = |bounds: &Bounds| bounds.covering(&at, access).is_some();
        prop_assert_eq!(holds(&both), holds(&a) && holds(&b));
        prop_assert!(a.read_only().is_within(&a));
    }

    #[test]
    fn narrowing_never_widens_the_bounds(a in any_authority(), by in any_narrowing()) {
        if let Ok(callee) = a.narrow("c", &by) {
            prop_assert!(callee.bounds().is_within(a.bounds()));
            if let Ok(twice) = callee.narrow("c", &by) {
                prop_assert!(twice.bounds().is_within(callee.bounds()));
            }
        }
    }

    #[test]
    fn narrowing_twice_by_the_same_changes_nothing(a in any_authority(), mut by in any_narrowing()) {
        // A foreign worker's mounts are cut to its caller's mounts again with each call.
        by.foreign = false;
        if let Ok(once) = a.narrow("c", &by) {
            let paths = paths(&[&once]);
            // Mounts that are wholly outside the bounds are correctly refused the second time.
            if let Ok(twice) = once.narrow("c", &by) {
                prop_assert_eq!(reach(&once, &paths), reach(&twice, &paths));
            }
        }
    }

    #[test]
    fn whatever_is_located_lies_in_the_bounds_and_in_its_mount(a in any_authority(), by in any_narrowing(), path in any_path(), access in any_access()) {
        let Ok(callee) = a.narrow("c", &by) else { return Ok(()) };
        for located in callee.locate(path.as_str(), access).into_iter().chain(callee.locate_tree(path.as_str()).unwrap_or_default()) {
            prop_assert!(located.place().is_within(&located.base));
            prop_assert!(located.base.is_within(&located.mount.place));
            prop_assert!(callee.bounds().covering(&located.base, located.access).is_some());
            prop_assert!(a.bounds().covering(&located.base, located.access).is_some());
            prop_assert!(located.access <= located.mount.access);
            prop_assert!(!by.readonly || located.access == Read);
            prop_assert_eq!(located.virtual_of(&located.rest), located.path.clone());
            prop_assert!(located.admits(&located.rest).is_ok());
            prop_assert_eq!(located.admits_as_named(), located.admits_file(&located.rest).is_ok());
        }
        prop_assert!(callee.can_write() || callee.locate(path.as_str(), Write).is_err());
    }

    #[test]
    fn a_foreign_callee_reaches_nothing_that_its_caller_does_not(a in any_authority(), mut by in any_narrowing()) {
        by.foreign = true;
        let Ok(callee) = a.narrow("lib:c", &by) else { return Ok(()) };
        let paths = paths(&[&a, &callee]);
        for (place, access) in reach(&callee, &paths) {
            let held = a.view().mounts().iter().any(|mount| {
                place.rest(&mount.place).is_some_and(|rest| {
                    let seen = mount.at.join(rest);
                    a.locate(seen.as_str(), access).is_ok_and(|located| {
                        let is_root = located.path == VirtualPath::root();
                        located.place() == place && (is_root || located.admits_file(&located.rest).is_ok())
                    })
                })
            });
            prop_assert!(held, "{access:?} {place} is reached by the callee alone");
        }
    }

    #[test]
    fn whoever_calls_whom_nothing_reaches_more_than_the_beginning_allows(
        first in any_authority(),
        workers in prop::collection::vec((any_narrowing(), prop::collection::vec((any_path(), any_access()), 0..3), 0usize..4), 1..7),
    ) {
        // A tree of workers: an earlier worker calls each, and each may be a library's or a generated one.
        let mut made = vec![first];
        for (mut by, asked, caller) in workers {
            let caller = made[caller % made.len()].clone();
            // Passed paths are located in the caller's view first, as the engine does.
            let held: Vec<Located> =
                asked.iter().filter_map(|(path, access)| caller.locate(path.as_str(), *access).ok()).collect();
            by.handed = held
                .iter()
                .enumerate()
                .map(|(number, located)| Mount {
                    at: at(&format!("/p{number}")),
                    place: located.place(),
                    access: located.access,
                    ..located.mount.clone()
                })
                .collect();
            let Ok(callee) = caller.narrow("c", &by) else { continue };
            prop_assert!(callee.bounds().is_within(caller.bounds()));
            prop_assert!(callee.bounds().is_within(made[0].bounds()));
            let seen = paths(&[&caller, &callee]);
            for (place, access) in reach(&callee, &seen) {
                prop_assert!(made[0].bounds().covering(&place, access).is_some(), "{access:?} {place}");
                prop_assert!(caller.bounds().covering(&place, access).is_some(), "{access:?} {place}");
                if by.foreign {
                    let handed = held.iter().any(|h| place.is_within(&h.place()) && access <= h.access);
                    let held = caller.view().mounts().iter().any(|mount| {
                        place.rest(&mount.place).is_some_and(|rest| {
                            caller.locate(mount.at.join(rest).as_str(), access).is_ok_and(|l| l.place() == place)
                        })
                    });
                    prop_assert!(handed || held, "{access:?} {place} is reached by a foreign callee alone");
                }
            }
            made.push(callee);
        }
    }

    #[test]
    fn a_restricted_worker_reaches_only_what_restrict_names(a in any_authority(), kept in prop::collection::vec(any_path(), 1..3)) {
        let by = Narrowing { restrict: kept.clone(), ..Narrowing::default() };
        let callee = a.narrow("c", &by).unwrap();
        let paths = paths(&[&a]);
        let before = reach(&a, &paths);
        for (place, access) in reach(&callee, &paths) {
            prop_assert!(before.contains(&(place.clone(), access)));
            let named = kept.iter().any(|path| a.view().extents_below(path).iter().any(|e| place.is_within(&e.place) && access <= e.access));
            prop_assert!(named, "{access:?} {place} is not in {kept:?}");
        }
    }
}
