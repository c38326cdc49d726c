//! The days and months of the operator's time zone.

use jiff::{Timestamp, ToSpan as _, Zoned, civil::Date, tz::TimeZone};
use llm_do_program::budgets::Period;
use std::{fmt, sync::Arc};

/// The clock and the time zone that decide which day and which month it is.
#[derive(Clone)]
pub(super) struct Calendar {
    zone: TimeZone,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calendar").field("zone", &self.zone).finish_non_exhaustive()
    }
}

impl Calendar {
    /// The machine's clock in that time zone, or in the machine's.
    pub(super) fn of_machine(zone: Option<&str>) -> Self {
        let zone = zone.and_then(|name| TimeZone::get(name).ok()).unwrap_or_else(TimeZone::system);
        Self { zone, clock: Arc::new(Timestamp::now) }
    }

    /// Another clock in that time zone.
    #[cfg(test)]
    pub(super) fn with_clock(zone: &str, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { zone: TimeZone::get(zone).expect("a time zone"), clock }
    }

    fn today(&self) -> Date {
        (self.clock)().to_zoned(self.zone.clone()).date()
    }

    /// The name of the current period: `2026-11-27` or `2026-11`. Names of one kind sort by time.
    pub(super) fn current(&self, period: Period) -> String {
        named(self.today(), period)
    }

    /// The name of the oldest period that is worth keeping.
    pub(super) fn oldest(&self) -> String {
        named(self.today().saturating_sub(400.days()), Period::Day)
    }

    /// The time at which the period after the named one begins. Absent for a text that names no period.
    pub(super) fn end(&self, period: Period, name: &str) -> Option<Zoned> {
        let next = match period {
            Period::Day => name.parse::<Date>().ok()?.tomorrow().ok()?,
            Period::Month => {
                let first: Date = format!("{name}-01").parse().ok()?;
                first.checked_add(1.month()).ok()?
            }
        };
        // Where the clocks are put forward at midnight, the day begins later.
        next.to_zoned(self.zone.clone()).ok()
    }
}

fn named(date: Date, period: Period) -> String {
    match period {
        Period::Day => date.to_string(),
        Period::Month => date.strftime("%Y-%m").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(zone: &str, time: &str) -> Calendar {
        let time: Timestamp = time.parse().expect("a time");
        Calendar::with_clock(zone, Arc::new(move || time))
    }

    fn opens(calendar: &Calendar, period: Period) -> String {
        let end = calendar.end(period, &calendar.current(period)).expect("a period");
        end.strftime("%Y-%m-%d %H:%M %:z").to_string()
    }

    #[test]
    fn days_and_months_are_those_of_the_time_zone() {
        let calendar = at("Europe/Berlin", "2026-10-31T23:30:00Z");
        assert_eq!(calendar.current(Period::Day), "2026-11-01");
        assert_eq!(calendar.current(Period::Month), "2026-11");
        let calendar = at("America/New_York", "2026-11-01T03:30:00Z");
        assert_eq!(calendar.current(Period::Day), "2026-10-31");
        assert_eq!(calendar.current(Period::Month), "2026-10");
    }

    #[test]
    fn months_end_on_their_last_day() {
        for (time, end) in [
            ("2026-02-28T12:00:00Z", "2026-03-01 00:00 +00:00"),
            ("2028-02-29T12:00:00Z", "2028-03-01 00:00 +00:00"),
            ("2026-12-31T23:59:59Z", "2027-01-01 00:00 +00:00"),
        ] {
            assert_eq!(opens(&at("UTC", time), Period::Month), end);
            assert_eq!(opens(&at("UTC", time), Period::Day), end);
        }
    }

    #[test]
    fn a_day_on_which_the_clocks_change_ends_at_midnight() {
        // 23 and 25 hours.
        let spring = at("Europe/Berlin", "2026-03-28T23:00:00Z");
        assert_eq!(spring.current(Period::Day), "2026-03-29");
        assert_eq!(opens(&spring, Period::Day), "2026-03-30 00:00 +02:00");
        let autumn = at("Europe/Berlin", "2026-10-25T22:59:59Z");
        assert_eq!(autumn.current(Period::Day), "2026-10-25");
        assert_eq!(opens(&autumn, Period::Day), "2026-10-26 00:00 +01:00");
        // In Cairo the clocks were put forward at midnight: the day began at one.
        let cairo = at("Africa/Cairo", "2024-04-25T12:00:00Z");
        assert_eq!(opens(&cairo, Period::Day), "2024-04-26 01:00 +03:00");
    }
}
