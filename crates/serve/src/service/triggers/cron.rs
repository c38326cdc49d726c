//! Runs by the clock.

use super::{
    Event, Kind, TRY_AGAIN, Trigger, may_pass,
    schedule::{Due, Schedule},
};
use crate::service::Service;
use jiff::Timestamp;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The longest sleep of the loop: the clock may be set meanwhile, and a machine may have been asleep.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Starts a run for each slot.
pub(super) async fn follow(service: &Service, trigger: &Arc<Trigger>) {
    let Kind::Cron { schedule, slots } = &trigger.kind else { return };
    let now = Timestamp::now();
    let mut until = slots.until().unwrap_or(now);
    let set = |until: Timestamp| {
        if let Err(error) = slots.set(until) {
            service.log_trigger(trigger, format!("cannot note its slot: {error}"));
        }
        until
    };
    until = set(until);
    loop {
        let now = Timestamp::now();
        until = Schedule::corrected(until, now);
        match schedule.due(until, now) {
            Due::Start(slot) => {
                let (time, date) = schedule.words(slot);
                let event = Event {
                    key: format!("cron:{slot}"),
                    fields: json!({"slot": time, "date": date}),
                    file: None,
                };
                match service.fire(trigger, event).await {
                    Err(error) if may_pass(error.code()) => sleep(TRY_AGAIN).await,
                    // What can't start now can't start later.
                    Ok(_) | Err(_) => until = set(slot),
                }
            }
            Due::Missed(slot) => {
                let (time, _) = schedule.words(slot);
                service.log_trigger(trigger, format!("missed the slot {time}"));
                until = set(slot);
            }
            Due::At(next) => {
                let left = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
                sleep(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN))).await;
            }
        }
    }
}
