//! Effects that runs may have.

/// Effects that the runs of a program may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// Runs read and write files, and their processes do what their workers may do.
    Allowed,
    /// The same as [`Effects::Allowed`], but no server of a toolset is started or reached, so that none needs a grant.
    /// For tests, whose recordings have the tools that servers listed.
    WithoutServers,
    /// Runs see no file, and their processes can neither change anything nor reach the network. For a replay, and for a
    /// function that is tried against recorded cases.
    Denied,
}
