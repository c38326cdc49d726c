//! The toolsets that need only ports.

pub mod client;
pub mod filesystem;
pub mod skills;
pub mod user;
pub mod workers;

use crate::toolset::ToolsetRegistry;
use std::sync::Arc;

impl ToolsetRegistry {
    /// The kinds that need only ports: `client`, `filesystem`, `skills`, `user` and `workers`.
    pub fn built_in() -> Self {
        let mut registry = Self::default();
        registry.register(Arc::new(client::Client));
        registry.register(Arc::new(filesystem::Filesystem));
        registry.register(Arc::new(skills::Skills));
        registry.register(Arc::new(user::User));
        registry.register(Arc::new(workers::Workers));
        registry
    }
}
