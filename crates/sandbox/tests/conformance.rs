//! The file system in memory and the native one behave the same for their users.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why it skips")]

use llm_do_core::{
    authority::{Access, Authority, Bounds, Extent, Located, Mount, Network, Protection, View, VirtualPath},
    vfs::{Entry, FileSystem, FsError, MemoryFileSystem},
};
use llm_do_sandbox::{NativeFileSystem, place_of};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Operation {
    Read(String, u64, u64),
    Write(String, Vec<u8>),
    Append(String, Vec<u8>),
    Delete(String),
    Rename(String, String),
    Copy(String, String),
    Stat(String),
    Walk(String, usize),
    MakeDirectory(String),
}

#[derive(Debug, PartialEq)]
enum Answer {
    Read(Vec<u8>, u64),
    Done,
    Stat(Option<Entry>),
    Walk(Vec<Entry>),
    Failed(String),
}

fn timeless(mut entry: Entry) -> Entry {
    entry.modified_ms = None;
    entry
}

/// Errors are equal where they say the same about the same path; the system's own words may differ.
fn failed(error: impl Into<FsError>) -> Answer {
    Answer::Failed(error.into().to_string())
}

async fn perform(files: &dyn FileSystem, authority: &Authority, operation: &Operation) -> Answer {
    let locate = |path: &String, access| authority.locate(path, access).map_err(FsError::from);
    let result = async {
        let done = |()| Answer::Done;
        let writing = |path: &String| -> Result<Located, FsError> { locate(path, Access::Write) };
        let reading = |path: &String| -> Result<Located, FsError> { locate(path, Access::Read) };
        Ok::<_, FsError>(match operation {
            Operation::Read(path, offset, limit) => {
                let (bytes, size) = files.read(&reading(path)?, *offset, *limit).await?;
                Answer::Read(bytes, size)
            }
            Operation::Write(path, content) => done(files.write(&writing(path)?, content).await?),
            Operation::Append(path, content) => done(files.append(&writing(path)?, content).await?),
            Operation::Delete(path) => done(files.delete(&writing(path)?).await?),
            Operation::Rename(from, to) => done(files.rename(&writing(from)?, &writing(to)?).await?),
            Operation::Copy(from, to) => done(files.copy(&reading(from)?, &writing(to)?).await?),
            Operation::Stat(path) => Answer::Stat(files.stat(&reading(path)?).await?.map(timeless)),
            Operation::Walk(path, limit) => {
                Answer::Walk(files.walk(&reading(path)?, *limit).await?.into_iter().map(timeless).collect())
            }
            Operation::MakeDirectory(path) => done(files.make_directory(&writing(path)?).await?),
        })
    };
    result.await.unwrap_or_else(failed)
}

/// Returns a strategy for paths of few names, so that operations meet: folders, files, files as folders, protected and
/// invisible ones, mounts.
fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "a",
        "a-b",
        "data",
        "out",
        "x.txt",
        "a",
        "data",
        "x.txt",
        ".env",
        "m.worker",
        "templates",
        "\u{e9}",
    ]);
    prop::collection::vec(name, 0..4).prop_map(|names| format!("/{}", names.join("/")))
}

fn operation() -> impl Strategy<Value = Operation> {
    let content = || prop::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        3 => (path(), content()).prop_map(|(path, content)| Operation::Write(path, content)),
        1 => (path(), 0..8_u64, 0..8_u64).prop_map(|(path, offset, limit)| Operation::Read(path, offset, limit)),
        1 => (path(), content()).prop_map(|(path, content)| Operation::Append(path, content)),
        1 => path().prop_map(Operation::Delete),
        2 => (path(), path()).prop_map(|(from, to)| Operation::Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Operation::Copy(from, to)),
        1 => path().prop_map(Operation::Stat),
        1 => (path(), 0..6_usize).prop_map(|(path, limit)| Operation::Walk(path, limit)),
        1 => path().prop_map(Operation::MakeDirectory),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_disk_answer_alike(operations in prop::collection::vec(operation(), 1..30), made in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let project = place_of(&dir.path().join("project")).unwrap();
        let mut limited = Mount::new(VirtualPath::parse("/data").unwrap(), project.join("out"), Access::Write);
        limited.suffixes = vec![".txt".into()];
        limited.max_file_bytes = Some(10);
        let mounts = vec![Mount::new(VirtualPath::root(), project.clone(), Access::Write), limited];
        let bounds = Bounds::new(vec![Extent { place: project.clone(), access: Access::Write }], Network::Off);
        let protection = Arc::new(Protection::new(project.clone(), []));
        let authority = Authority::new(bounds, View::new(mounts), protection);
        let memory = MemoryFileSystem::new();
        let native = NativeFileSystem::new();
        if made {
            memory.put_folder(&project);
            std::fs::create_dir(project.as_str()).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for operation in &operations {
                let expected = perform(&memory, &authority, operation).await;
                let answer = perform(&native, &authority, operation).await;
                prop_assert_eq!(&expected, &answer, "memory and disk differ on {:?} of {:#?}", operation, &operations);
            }
            let all = Operation::Walk("/".into(), 10_000);
            prop_assert_eq!(perform(&memory, &authority, &all).await, perform(&native, &authority, &all).await);
            Ok(())
        })?;
    }
}
