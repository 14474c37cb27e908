//! Figures and the table of them.

use std::time::Duration;

/// A sorted collection of times.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The time that this share of all does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index into a short list"
        )]
        let at = ((self.0.len() as f64 - 1.0) * share).round() as usize;
        self.0[at].as_secs_f64()
    }
}

/// The middle one, so that one disturbed repeat does not count.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// What a figure counts.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Seconds,
    PerSecond,
    Megabytes,
    Bytes,
    /// Processor milliseconds in a minute.
    CpuPerMinute,
}

impl Unit {
    fn show(self, figure: Option<f64>) -> String {
        let Some(figure) = figure else {
            return "-".to_owned();
        };
        match self {
            Self::Seconds if figure < 0.001 => format!("{:.0} µs", figure * 1e6),
            Self::Seconds if figure < 1.0 => format!("{:.2} ms", figure * 1e3),
            Self::Seconds => format!("{figure:.2} s"),
            Self::PerSecond if figure < 100.0 => format!("{figure:.1} /s"),
            Self::PerSecond => format!("{figure:.0} /s"),
            Self::Megabytes => format!("{figure:.1} MB"),
            Self::Bytes => format!("{figure:.0} B"),
            Self::CpuPerMinute => format!("{figure:.1} ms/min"),
        }
    }
}

/// What the product has to reach.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// At most so many times the floor.
    AtMostTimes(f64),
    /// At least so many times the floor.
    AtLeastTimes(f64),
    /// At most so much.
    AtMost(f64),
    /// A figure to read beside the others.
    None,
}

/// One line of the table.
pub(crate) struct Line {
    pub(crate) what: &'static str,
    pub(crate) unit: Unit,
    pub(crate) floor: Option<f64>,
    pub(crate) product: Option<f64>,
    pub(crate) goal: Goal,
}

impl Line {
    pub(crate) fn head() {
        println!(
            "{:<62} {:>12} {:>12} {:>7}  goal",
            "what", "floor", "product", "ratio"
        );
    }

    pub(crate) fn print(&self) {
        let floor = self.floor.filter(|floor| *floor > 0.0);
        let ratio = floor
            .zip(self.product)
            .map(|(floor, product)| product / floor);
        let goal = match self.goal {
            Goal::AtMostTimes(times) => format!("at most {times} × floor"),
            Goal::AtLeastTimes(times) => format!("at least {times} × floor"),
            Goal::AtMost(figure) => format!("at most {}", self.unit.show(Some(figure))),
            Goal::None => String::new(),
        };
        let met = match self.goal {
            Goal::AtMostTimes(times) => ratio.map(|ratio| ratio <= times),
            Goal::AtLeastTimes(times) => ratio.map(|ratio| ratio >= times),
            Goal::AtMost(figure) => self.product.map(|product| product <= figure),
            Goal::None => None,
        };
        println!(
            "{:<62} {:>12} {:>12} {:>7}  {goal}{}",
            self.what,
            self.unit.show(self.floor),
            self.unit.show(self.product),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            met.map_or("", |met| if met { "" } else { "   MISSED" }),
        );
    }
}
