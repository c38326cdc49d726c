//! A switch that ends a map from outside.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;

/// Ends a map in order: no row begins, and running rows come to their end. Clones end the same map.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(AtomicBool, Notify)>);

impl Stop {
    /// Ends the map.
    pub fn stop(&self) {
        self.0.0.store(true, Ordering::Release);
        self.0.1.notify_one();
    }

    /// Returns true if the map was ended.
    pub fn is_on(&self) -> bool {
        self.0.0.load(Ordering::Acquire)
    }

    pub(crate) async fn changed(&self) {
        self.0.1.notified().await;
    }
}
