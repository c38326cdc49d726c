//! A screen whose output goes to an emulator.

use llm_do_terminal::{Line, Live, Screen, Settings, Size};

pub(crate) struct Shown {
    screen: Screen<Vec<u8>>,
    /// The emulator, or `None` if the bytes are only counted.
    emulator: Option<avt::Terminal>,
    fed: usize,
}

impl Shown {
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        Self::with(columns, rows, Settings::default())
    }

    pub(crate) fn with(columns: usize, rows: usize, settings: Settings) -> Self {
        let emulator = avt::Terminal::with_scrollback(columns, rows, None).expect("a size");
        Self { emulator: Some(emulator), ..Self::counting_with(columns, rows, settings) }
    }

    /// Returns a screen without an emulator.
    pub(crate) fn counting(columns: usize, rows: usize) -> Self {
        Self::counting_with(columns, rows, Settings::default())
    }

    fn counting_with(columns: usize, rows: usize, settings: Settings) -> Self {
        let screen = Screen::new(Vec::new(), Size::new(columns, rows), settings);
        Self { screen, emulator: None, fed: 0 }
    }

    pub(crate) fn update(&mut self, lines: &[Line], live: Live) {
        self.screen.update(lines, live).expect("a vector takes everything");
        self.feed();
    }

    /// Resizes the terminal, and then the screen.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        if let Some(emulator) = &mut self.emulator {
            emulator.resize(columns, rows);
        }
        self.screen.resize(Size::new(columns, rows)).expect("a vector takes everything");
        self.feed();
    }

    /// Sends the written bytes to the emulator.
    pub(crate) fn feed(&mut self) {
        let bytes = self.screen.get_ref();
        if let Some(emulator) = &mut self.emulator {
            emulator.feed(std::str::from_utf8(&bytes[self.fed..]).expect("updates are whole"));
        }
        self.fed = bytes.len();
    }

    pub(crate) fn screen_mut(&mut self) -> &mut Screen<Vec<u8>> {
        &mut self.screen
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> usize {
        self.screen.get_ref().len()
    }

    /// The lines of scrollback and screen, wrapped rows joined, without blank lines at the end.
    pub(crate) fn text(&self) -> Vec<String> {
        let mut lines = self.emulator.as_ref().map(|emulator| emulator.screen().text()).unwrap_or_default();
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        lines
    }

    /// The rows of the screen.
    pub(crate) fn screen(&self) -> Vec<String> {
        let emulator = self.emulator.as_ref().expect("an emulator");
        emulator.screen().visible_lines().map(|line| line.text().trim_end().to_owned()).collect()
    }

    /// Column and row of the cursor, if it is shown.
    pub(crate) fn cursor(&self) -> Option<(usize, usize)> {
        self.emulator.as_ref().and_then(|emulator| emulator.cursor().position())
    }
}
