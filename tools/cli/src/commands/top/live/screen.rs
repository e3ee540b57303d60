//! What the screen shows of the readings: tab, order, filter, the row that is marked.

use ratatui::widgets::TableState;

use super::rows::{Cell, Row, Tab};
use crate::arguments::runs::TopSort;
use crate::commands::top::readings::Readings;

/// The state of the screen between two keys.
#[derive(Debug)]
pub struct Screen {
    pub tab: Tab,
    /// The column of each tab that sorts it.
    sorted_by: [usize; Tab::ALL.len()],
    pub is_reversed: bool,
    pub filter: String,
    /// Whether letters go to the filter.
    pub is_editing: bool,
    pub is_helping: bool,
    pub is_paused: bool,
    pub marked: TableState,
    /// The row that is marked, wherever it is when the rows are listed again; `None` when a key has marked
    /// another place since.
    followed: Option<(u32, String)>,
}

impl Screen {
    /// The first screen.
    pub fn sorted_by(by: TopSort) -> Self {
        let (tab, column) = match by {
            TopSort::Process => (Tab::Processes, "process"),
            TopSort::Calls => (Tab::Processes, "calls/s"),
            TopSort::InFlight => (Tab::Processes, "in flight"),
            TopSort::Busy => (Tab::Endpoints, "busy %"),
            TopSort::Stalls => (Tab::Processes, "stalls"),
        };
        let mut sorted_by = [0; Tab::ALL.len()];
        let column = tab.columns().iter().position(|it| it.name == column);
        sorted_by[tab as usize] = column.expect("the tab has the column");
        Self {
            tab,
            sorted_by,
            is_reversed: false,
            filter: String::new(),
            is_editing: false,
            is_helping: false,
            is_paused: false,
            marked: TableState::default(),
            followed: None,
        }
    }

    /// The column that sorts the tab.
    pub fn column(&self) -> usize {
        self.sorted_by[self.tab as usize]
    }

    /// Sorts by the column so many places to the right, around the end.
    pub fn move_column(&mut self, places: isize) {
        let columns = self.tab.columns().len() as isize;
        let column = (self.column() as isize + places).rem_euclid(columns);
        self.sorted_by[self.tab as usize] = column as usize;
    }

    /// Shows the tab so many places to the right, around the end.
    pub fn move_tab(&mut self, places: isize) {
        let tab = (self.tab as isize + places).rem_euclid(Tab::ALL.len() as isize);
        self.show(Tab::ALL[tab as usize]);
    }

    pub fn show(&mut self, tab: Tab) {
        self.tab = tab;
        self.mark(|rows| rows.select(None));
    }

    /// Marks another place.
    pub fn mark(&mut self, how: impl FnOnce(&mut TableState)) {
        how(&mut self.marked);
        self.followed = None;
    }

    /// Has the mark stay with its process, endpoint or part while rows come, go and change places. When it
    /// has gone nothing is marked.
    pub fn follow(&mut self, rows: &[Row]) {
        if self.followed.is_none() {
            let place = self.marked.selected().map(|place| place.min(rows.len().saturating_sub(1)));
            self.followed = place.and_then(|place| rows.get(place)).map(|row| row.of.clone());
        }
        let place = self.followed.as_ref().and_then(|of| rows.iter().position(|row| row.of == *of));
        self.marked.select(place);
    }

    /// The rows that are shown, in their order: the greatest first, of numbers of processes and of texts the
    /// least.
    pub fn rows(&self, seen: &Readings) -> Vec<Row> {
        let mut rows = self.tab.rows(seen);
        rows.retain(|row| row.has(&self.filter));
        let column = self.column();
        rows.sort_by(|one, other| {
            let (one, other) = (&one.cells[column], &other.cells[column]);
            let order = match (one.amount, other.amount) {
                (Some(one), Some(other)) if column > 0 => other.total_cmp(&one),
                (Some(one), Some(other)) => one.total_cmp(&other),
                // What has an amount comes first.
                (one_amount, other_amount) => other_amount
                    .is_some()
                    .cmp(&one_amount.is_some())
                    .then_with(|| shown(one).cmp(shown(other))),
            };
            if self.is_reversed { order.reverse() } else { order }
        });
        rows
    }

    /// Whether these rows fall from the greatest to the least.
    pub fn falls(&self, rows: &[Row]) -> bool {
        let column = self.column();
        let is_of_amounts = column > 0 && rows.iter().any(|row| row.cells[column].amount.is_some());
        is_of_amounts != self.is_reversed
    }
}

fn shown(cell: &Cell) -> &str {
    &cell.shown
}
