//! The style that the terminal writes with.

use super::Settings;
use anstyle::Style;

const RESET: &[u8] = b"\x1b[0m";
const LINK_END: &[u8] = b"\x1b]8;;\x1b\\";

/// A pen that tracks the current style and link, and writes only changes.
pub(super) struct Pen<'a> {
    settings: Settings,
    style: Style,
    link: Option<&'a str>,
}

impl<'a> Pen<'a> {
    /// Returns a pen without style.
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, style: Style::new(), link: None }
    }

    /// Turns a style and a link on, in place of the current ones.
    pub(super) fn set(&mut self, out: &mut Vec<u8>, style: Style, link: Option<&'a str>) {
        if self.settings.links && link != self.link {
            match link {
                Some(address) => out.extend_from_slice(format!("\x1b]8;;{address}\x1b\\").as_bytes()),
                None => out.extend_from_slice(LINK_END),
            }
            self.link = link;
        }
        if self.settings.colour && style != self.style {
            if !self.style.is_plain() {
                out.extend_from_slice(RESET);
            }
            out.extend_from_slice(style.to_string().as_bytes());
            self.style = style;
        }
    }

    /// Turns everything off.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.set(out, Style::new(), None);
    }
}
