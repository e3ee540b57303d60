//! The columns of each tab, and which of them a screen has room for.

use super::rows::Tab;

/// The widest that a column of text becomes where another one can use the room.
const TEXT_WIDTH_MAX: u16 = 76;

/// A column of a tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// Its least.
    width: u16,
    /// Whether it shares in the width that is left.
    grows: bool,
    /// Those with the lowest number are shown first where there is no room for all.
    rank: u8,
}

const fn column(name: &'static str, width: u16, rank: u8) -> Column {
    Column { name, width, grows: false, rank }
}

const fn growing(name: &'static str, width: u16, rank: u8) -> Column {
    Column { name, width, grows: true, rank }
}

const PROCESSES: [Column; 11] = [
    column("process", 8, 0),
    growing("program", 16, 1),
    column("core %", 7, 5),
    column("waits %", 8, 8),
    column("sessions", 9, 7),
    column("calls/s", 9, 2),
    column("served/s", 9, 3),
    column("store/s", 8, 4),
    column("in flight", 10, 6),
    column("rates", 16, 9),
    growing("stalls", 16, 0),
];

const ENDPOINTS: [Column; 12] = [
    column("process", 8, 0),
    column("endpoint", 24, 0),
    column("sessions", 9, 7),
    column("calls/s", 9, 1),
    column("answers/s", 10, 6),
    column("served/s", 9, 2),
    column("in flight", 10, 3),
    column("busy %", 7, 5),
    column("sleeps/s", 9, 8),
    column("service", 8, 9),
    column("stalled ms", 11, 4),
    column("rates", 16, 10),
];

const PARTS: [Column; 5] = [
    column("process", 8, 0),
    column("part", 22, 0),
    column("busiest/s", 10, 3),
    column("stalls", 24, 2),
    growing("what", 20, 1),
];

impl Tab {
    /// Its columns. The first two say what a row is.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Processes => &PROCESSES,
            Self::Endpoints => &ENDPOINTS,
            Self::Ways | Self::Store => &PARTS,
        }
    }

    /// The columns for which a screen of this width has room, by their places, with their widths: those that
    /// matter most, and first the one that sorts. `None` where not even those are.
    pub fn columns_within(self, width: u16, sorts: usize) -> Option<Vec<(usize, u16)>> {
        let columns = self.columns();
        let mut by_rank: Vec<_> = (0..columns.len()).collect();
        let rank = |place: &usize| if *place == sorts { 0 } else { columns[*place].rank };
        by_rank.sort_by_key(rank);
        let (mut shown, mut left) = (Vec::new(), width + 1);
        for place in by_rank {
            // With the space before the next one.
            match left.checked_sub(columns[place].width + 1) {
                Some(less) => {
                    left = less;
                    shown.push((place, columns[place].width));
                }
                None if place == 0 || place == sorts => return None,
                None => {}
            }
        }
        shown.sort_unstable();
        self.share(left, &mut shown);
        Some(shown)
    }

    /// Shares what is left among the columns that grow: each gets a third of it, as far as it can use
    /// that, and the last one the rest: sentences are there.
    fn share(self, mut left: u16, shown: &mut [(usize, u16)]) {
        let growing: Vec<_> = shown.iter_mut().filter(|(place, _)| self.columns()[*place].grows).collect();
        let count = growing.len();
        for (nth, (_, width)) in (1..).zip(growing) {
            let useful = (left / 3).min(TEXT_WIDTH_MAX.saturating_sub(*width));
            let more = if nth == count { left } else { useful };
            *width += more;
            left -= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tab: Tab, width: u16, sorts: usize) -> Vec<&'static str> {
        let shown = tab.columns_within(width, sorts).expect("there is room");
        assert!(shown.iter().map(|(_, width)| width + 1).sum::<u16>() <= width + 1, "{shown:?}");
        shown.into_iter().map(|(place, _)| tab.columns()[place].name).collect()
    }

    #[test]
    fn every_name_has_room_with_the_arrow_of_the_order() {
        for column in Tab::ALL.iter().flat_map(|tab| tab.columns()) {
            assert!(column.name.len() < column.width as usize, "{column:?}");
        }
    }

    #[test]
    fn columns_go_one_by_one_and_are_never_narrower_than_their_numbers() {
        let of_processes = |width| names(Tab::Processes, width, 0);
        assert_eq!(of_processes(25), ["process", "stalls"]);
        assert_eq!(of_processes(40), ["process", "calls/s", "stalls"]);
        assert_eq!(of_processes(60), ["process", "program", "core %", "calls/s", "stalls"]);
        let at_80 = ["process", "program", "core %", "calls/s", "served/s", "store/s", "stalls"];
        assert_eq!(of_processes(80), at_80);
        assert_eq!(of_processes(132).len(), Tab::Processes.columns().len());
        assert_eq!(names(Tab::Ways, 80, 0), ["process", "part", "stalls", "what"]);
        assert_eq!(Tab::Processes.columns_within(7, 0), None);
    }

    #[test]
    fn the_column_that_sorts_is_there() {
        for width in 60..200 {
            for tab in Tab::ALL {
                for sorts in 0..tab.columns().len() {
                    let found = tab.columns_within(width, sorts).expect("room for two");
                    assert!(found.iter().any(|(place, _)| *place == sorts), "{tab:?}, {width}, {sorts}");
                }
            }
        }
    }

    #[test]
    fn wide_screens_show_whole_commands() {
        let shown = Tab::Processes.columns_within(250, 0).expect("there is room");
        assert!(shown[1].1 >= 56 && shown[10].1 >= 60, "{shown:?}");
        assert_eq!(shown.iter().map(|(_, width)| width + 1).sum::<u16>(), 251);
    }
}
