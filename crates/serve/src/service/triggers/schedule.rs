//! The slots of a cron expression.
//!
//! Clocks change: where they are put forward, a slot that names its hour and does not exist starts right after the gap. Where they are put
//! back, such a slot starts once. Slots of expressions with `*` or a step in minute or hour follow the clock: they are left out
//! in a gap, and come twice in an overlap. This is what Vixie's cron does.

use crate::trigger_settings::{CronSettings, Missed};
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// A slot that is this late was missed.
const ON_TIME: SignedDuration = SignedDuration::from_secs(60);
/// A clock that was put back by more than this had been wrong before.
const PUT_BACK: SignedDuration = SignedDuration::from_hours(25);

/// A cron expression in its time zone.
#[derive(Debug)]
pub(crate) struct Schedule {
    cron: Cron,
    zone: TimeZone,
    missed: Missed,
}

/// The state of a schedule now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The slot is to be started.
    Start(Timestamp),
    /// The slot passed while no server was there.
    Missed(Timestamp),
    /// Nothing is due before that time. `None`: there are no further slots.
    At(Option<Timestamp>),
}

impl Schedule {
    /// # Errors
    /// The settings have a mistake.
    pub(crate) fn new(settings: &CronSettings) -> Result<Self, String> {
        let CronSettings { at, time_zone, missed } = settings;
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(at).map_err(|error| {
            let fields = "minute, hour, day of the month, month and day of the week";
            format!("cron: `{at}` is no cron expression ({error}): give the five fields {fields}")
        })?;
        let name = time_zone.as_deref().unwrap_or("UTC");
        let zone = TimeZone::get(name).map_err(|_| {
            format!("cron: there is no time zone `{name}`: give a name such as Europe/Berlin")
        })?;
        let schedule = Self { cron, zone, missed: *missed };
        match schedule.next(Timestamp::now()) {
            Some(_) => Ok(schedule),
            None => Err(format!("cron: `{at}` has no slots: no such day comes")),
        }
    }

    /// The first slot after that time.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let found = self.cron.find_next_occurrence(&after.to_zoned(self.zone.clone()), false);
        found.ok().map(|slot| slot.timestamp())
    }

    /// The last slot until that time.
    fn last(&self, until: Timestamp) -> Option<Timestamp> {
        let found = self.cron.find_previous_occurrence(&until.to_zoned(self.zone.clone()), true);
        found.ok().map(|slot| slot.timestamp())
    }

    /// The state now, if all slots until `until` have been dealt with.
    pub(crate) fn due(&self, until: Timestamp, now: Timestamp) -> Due {
        match self.last(now) {
            Some(slot) if slot > until => match self.missed {
                Missed::Skip if now.duration_since(slot) > ON_TIME => Due::Missed(slot),
                Missed::Skip | Missed::Once => Due::Start(slot),
            },
            _ => Due::At(self.next(until.max(now))),
        }
    }

    /// Returns the time until which all slots have been dealt with, if the clock shows `now`. If the clock was put back
    /// a little, its slots are not started again. A clock that was far ahead had been wrong: without a correction, no
    /// slot would come for that long.
    pub(crate) fn corrected(until: Timestamp, now: Timestamp) -> Timestamp {
        if until.duration_since(now) > PUT_BACK { now } else { until }
    }

    /// A slot with its day, as inputs name them.
    pub(crate) fn words(&self, slot: Timestamp) -> (String, String) {
        let local = slot.to_zoned(self.zone.clone());
        (local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(), local.strftime("%Y-%m-%d").to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(at: &str, missed: Missed) -> Schedule {
        let settings = CronSettings { at: at.into(), time_zone: Some("Europe/Berlin".into()), missed };
        Schedule::new(&settings).expect(at)
    }

    fn time(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    /// The slots in a span, as the loop of a trigger that looks every minute meets them.
    fn slots(schedule: &Schedule, from: &str, to: &str) -> Vec<String> {
        let (mut now, end) = (time(from), time(to));
        let (mut until, mut found) = (now, Vec::new());
        while now <= end {
            match schedule.due(until, now) {
                Due::Start(slot) => {
                    found.push(schedule.words(slot).0);
                    until = slot;
                }
                Due::Missed(slot) => panic!("{slot} was missed"),
                Due::At(next) => {
                    assert!(next.is_none_or(|next| next > now), "the search moves on");
                    now += SignedDuration::from_secs(60);
                }
            }
        }
        found
    }

    /// On 2026-03-29, clocks in Berlin go from 02:00 to 03:00.
    #[test]
    fn slot_in_a_gap_starts_once_right_after_it() {
        let found =
            slots(&schedule("30 2 * * *", Missed::Skip), "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z");
        assert_eq!(found, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
        let hourly =
            slots(&schedule("30 * * * *", Missed::Skip), "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z");
        assert_eq!(hourly, ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"]);
    }

    /// On 2026-10-25, clocks in Berlin go from 03:00 back to 02:00.
    #[test]
    fn slot_in_an_overlap_starts_once_and_hourly_ones_follow_the_clock() {
        let found =
            slots(&schedule("30 2 * * *", Missed::Skip), "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(found, ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]);
        let hourly =
            slots(&schedule("30 * * * *", Missed::Skip), "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z");
        assert_eq!(hourly, ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]);
    }

    #[test]
    fn missed_slots_start_one_run_or_none() {
        let (until, now) = (time("2026-06-01T00:00:00Z"), time("2026-06-10T12:00:00Z"));
        let last = time("2026-06-10T01:00:00Z");
        let once = schedule("0 3 * * *", Missed::Once);
        assert_eq!(once.due(until, now), Due::Start(last));
        assert_eq!(once.due(last, now), Due::At(Some(time("2026-06-11T01:00:00Z"))), "one for all of them");
        let skip = schedule("0 3 * * *", Missed::Skip);
        assert_eq!(skip.due(until, now), Due::Missed(last));
        assert_eq!(skip.due(until, last + SignedDuration::from_secs(3)), Due::Start(last), "it is on time");
    }

    #[test]
    fn clock_that_is_put_back_repeats_no_slot() {
        let hourly = schedule("0 * * * *", Missed::Once);
        let done = time("2026-06-10T12:00:00Z");
        let back = time("2026-06-10T09:30:00Z");
        let until = Schedule::corrected(done, back);
        assert_eq!(hourly.due(until, back), Due::At(Some(time("2026-06-10T13:00:00Z"))));
        // A clock that was a year ahead does not keep the trigger from working for a year.
        let until = Schedule::corrected(time("2027-06-10T12:00:00Z"), back);
        assert_eq!(hourly.due(until, back), Due::At(Some(time("2026-06-10T10:00:00Z"))));
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        let new = |at: &str, zone: &str| {
            let settings = CronSettings { at: at.into(), time_zone: Some(zone.into()), missed: Missed::Skip };
            Schedule::new(&settings).map(|_| ()).expect_err(at)
        };
        assert!(new("0 3 * *", "UTC").contains("five fields"));
        assert!(new("61 3 * * *", "UTC").contains("no cron expression"));
        assert!(new("0 0 31 2 *", "UTC").contains("no slots"));
        assert!(new("0 3 * * *", "Europe/Berlyn").contains("no time zone `Europe/Berlyn`"));
    }
}
