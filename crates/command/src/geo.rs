//! Places on Earth as Redis stores them. A place is a number of 52 bits, in which the bits of longitude and latitude
//! alternate, so that places that are near each other have similar numbers. The arithmetic is that of Redis, rounding
//! included: the same commands give the same scores, distances and orders.

use std::f64::consts::PI;

/// Bits of each coordinate.
const STEPS: u8 = 26;

/// Longitudes.
const LONGITUDES: (f64, f64) = (-180.0, 180.0);
/// Latitudes of the square map that the web uses.
const LATITUDES: (f64, f64) = (-85.051_128_78, 85.051_128_78);
/// Latitudes of a standard geohash.
const ALL_LATITUDES: (f64, f64) = (-90.0, 90.0);

const EARTH_RADIUS_METERS: f64 = 6_372_797.560_856;
/// Half of the map's width.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// Letters of a standard geohash.
const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// How many of these letters the bits suffice for; the one letter after them is always the first of the alphabet.
const LETTERS_KNOWN: u32 = 10;

/// A place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Degrees to the east.
    pub longitude: f64,
    /// Degrees to the north.
    pub latitude: f64,
}

/// The shape of a search around a place, in meters.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Everything within this distance.
    Circle(f64),
    /// Everything in a box of this width and height.
    Box(f64, f64),
}

/// A square of the map, with all places whose numbers begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    steps: u8,
}

/// What a cell covers.
struct Area {
    longitudes: (f64, f64),
    latitudes: (f64, f64),
}

/// Interleaves the bits of `even` and `odd`.
fn interleave(even: u32, odd: u32) -> u64 {
    let spread = |number: u32| (0..u32::BITS).fold(0, |all, bit| all | u64::from(number >> bit & 1) << (2 * bit));
    spread(even) | spread(odd) << 1
}

/// Every second bit, beginning with the lowest.
fn every_second(bits: u64) -> u32 {
    (0..u32::BITS).fold(0, |all, bit| all | ((bits >> (2 * bit) & 1) as u32) << bit)
}

fn encode(place: Place, latitudes: (f64, f64), steps: u8) -> Cell {
    let part = |number: f64, (min, max): (f64, f64)| ((number - min) / (max - min) * (1_u64 << steps) as f64) as u32;
    Cell { bits: interleave(part(place.latitude, latitudes), part(place.longitude, LONGITUDES)), steps }
}

impl Cell {
    fn area(self) -> Area {
        let edges = |number: u32, (min, max): (f64, f64)| {
            let edge = |number: f64| min + (number / (1_u64 << self.steps) as f64) * (max - min);
            (edge(f64::from(number)), edge(f64::from(number.wrapping_add(1))))
        };
        Area {
            longitudes: edges(every_second(self.bits >> 1), LONGITUDES),
            latitudes: edges(every_second(self.bits), LATITUDES),
        }
    }

    /// The cell that is `east` cells to the east and `north` cells to the north; beyond an edge it goes around the
    /// globe.
    fn moved(self, east: i32, north: i32) -> Self {
        let mask = ((1_u64 << self.steps) - 1) as u32;
        // The last meridian is one cell too far, and stays there if it is not moved.
        let step = |number: u32, by: i32| if by == 0 { number } else { number.wrapping_add_signed(by) & mask };
        let (latitude, longitude) = (step(every_second(self.bits), north), step(every_second(self.bits >> 1), east));
        Self { bits: interleave(latitude, longitude), ..self }
    }

    /// The first score of the places in the cell, and the score behind the last one.
    fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS - self.steps);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

impl Place {
    /// Whether the place is on the map.
    pub fn is_on_map(self) -> bool {
        let is_in = |number: f64, (min, max): (f64, f64)| (min..=max).contains(&number);
        is_in(self.longitude, LONGITUDES) && is_in(self.latitude, LATITUDES)
    }

    /// The score of a member at this place.
    pub fn score(self) -> f64 {
        encode(self, LATITUDES, STEPS).bits as f64
    }

    /// The place of a member with this score.
    pub fn of_score(score: f64) -> Self {
        let Area { longitudes, latitudes } = Cell { bits: score as u64, steps: STEPS }.area();
        let middle = |(from, to): (f64, f64), (min, max): (f64, f64)| ((from + to) / 2.0).clamp(min, max);
        Self { longitude: middle(longitudes, LONGITUDES), latitude: middle(latitudes, LATITUDES) }
    }

    /// The place in the letters of a standard geohash.
    pub fn letters(self) -> Vec<u8> {
        let bits = encode(self, ALL_LATITUDES, STEPS).bits;
        let letter = |index: u32| LETTERS[(bits >> (52 - (index + 1) * 5) & 0x1f) as usize];
        (0..LETTERS_KNOWN).map(letter).chain([LETTERS[0]]).collect()
    }

    /// The distance to `other` in meters.
    pub fn distance(self, other: Self) -> f64 {
        let v = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance(self.latitude, other.latitude);
        }
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH_RADIUS_METERS * a.sqrt().asin()
    }
}

/// Not `to_degrees`, which multiplies, and so rounds differently.
fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

fn latitude_distance(from: f64, to: f64) -> f64 {
    EARTH_RADIUS_METERS * (to.to_radians() - from.to_radians()).abs()
}

impl Shape {
    /// The distance from `center` to `place` in meters; `None` if the place is outside of the shape.
    pub fn distance(self, center: Place, place: Place) -> Option<f64> {
        match self {
            Self::Circle(radius) => Some(center.distance(place)).filter(|&distance| distance <= radius),
            Self::Box(width, height) => {
                if latitude_distance(place.latitude, center.latitude) > height / 2.0 {
                    return None;
                }
                let beside = Place { longitude: center.longitude, ..place };
                Some(center.distance(place)).filter(|_| place.distance(beside) <= width / 2.0)
            }
        }
    }

    fn radius(self) -> f64 {
        match self {
            Self::Circle(radius) => radius,
            Self::Box(width, height) => ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt(),
        }
    }

    /// The longitudes and latitudes that the shape reaches around `center`.
    fn bounds(self, center: Place) -> Area {
        let (width, height) = match self {
            Self::Circle(radius) => (radius, radius),
            Self::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let north = degrees(height / EARTH_RADIUS_METERS);
        // Degrees of longitude are shortest at the end that is nearer to the pole.
        let end = if center.latitude < 0.0 { center.latitude - north } else { center.latitude + north };
        let east = degrees(width / EARTH_RADIUS_METERS / end.to_radians().cos());
        Area {
            longitudes: (center.longitude - east, center.longitude + east),
            latitudes: (center.latitude - north, center.latitude + north),
        }
    }

    /// Ranges of scores (the first score, and the one behind the last) that have all places in the shape, in the order
    /// in which Redis goes through them.
    pub fn scores(self, center: Place) -> Vec<(f64, f64)> {
        let bounds = self.bounds(center);
        let mut steps = steps_for(self.radius(), center.latitude);
        let mut cell = encode(center, LATITUDES, steps);
        if steps > 1 && is_too_small(cell, &bounds) {
            steps -= 1;
            cell = encode(center, LATITUDES, steps);
        }
        let area = cell.area();
        // If the middle cell reaches beyond the bounds, the cells on that side have nothing.
        let is_useless = |east: i32, north: i32| {
            steps >= 2
                && (north < 0 && area.latitudes.0 < bounds.latitudes.0
                    || north > 0 && area.latitudes.1 > bounds.latitudes.1
                    || east < 0 && area.longitudes.0 < bounds.longitudes.0
                    || east > 0 && area.longitudes.1 > bounds.longitudes.1)
        };
        const AROUND: [(i32, i32); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells: Vec<Cell> = Vec::new();
        for (index, (east, north)) in AROUND.into_iter().enumerate() {
            let next = cell.moved(east, north);
            // Large shapes have the same neighbour twice. As in Redis, a cell is compared only with the one before it.
            let is_same = cells.len() > 1 && cells.last() == Some(&next);
            if index == 0 || !(is_useless(east, north) || is_same) {
                cells.push(next);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }
}

/// How many bits for each coordinate give cells that are about as large as `radius`.
fn steps_for(radius: f64, latitude: f64) -> u8 {
    if radius == 0.0 {
        return STEPS;
    }
    let (mut steps, mut width) = (1_i32, radius);
    while width < MERCATOR_MAX {
        width *= 2.0;
        steps += 1;
    }
    steps -= 2;
    // Degrees of longitude are shorter towards the poles.
    if latitude.abs() > 66.0 {
        steps -= 1;
        if latitude.abs() > 80.0 {
            steps -= 1;
        }
    }
    steps.clamp(1, i32::from(STEPS)) as u8
}

/// Whether a neighbour of `cell` does not reach to the end of the searched area.
fn is_too_small(cell: Cell, bounds: &Area) -> bool {
    cell.moved(0, 1).area().latitudes.1 < bounds.latitudes.1
        || cell.moved(0, -1).area().latitudes.0 > bounds.latitudes.0
        || cell.moved(1, 0).area().longitudes.1 < bounds.longitudes.1
        || cell.moved(-1, 0).area().longitudes.0 > bounds.longitudes.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PALERMO: Place = Place { longitude: 13.361_389, latitude: 38.115_556 };
    const CATANIA: Place = Place { longitude: 15.087_269, latitude: 37.502_669 };

    #[test]
    fn places_are_as_redis_has_them() {
        assert_eq!(PALERMO.score(), 3_479_099_956_230_698.0);
        assert_eq!(PALERMO.letters(), b"sqc8b49rny0");
        let back = [PALERMO, CATANIA].map(|place| Place::of_score(place.score()));
        assert_eq!(format!("{:.4}", back[0].distance(back[1])), "166274.1516");
    }

    proptest! {
        /// Wherever the center is, every place inside the shape is in one of the ranges.
        #[test]
        fn what_is_near_is_found(
            longitude in -170.0..170.0, latitude in -60.0..60.0, east in -1.0..1.0, north in -1.0..1.0, size in 1.0..5.0e5
        ) {
            let center = Place { longitude, latitude };
            let degrees = size / 111_000.0;
            let near = Place { longitude: longitude + east * degrees, latitude: latitude + north * degrees };
            let score = near.score();
            let place = Place::of_score(score);
            for shape in [Shape::Circle(size), Shape::Box(size, size)] {
                if shape.distance(center, place).is_some() {
                    prop_assert!(shape.scores(center).iter().any(|(from, to)| (*from..*to).contains(&score)));
                }
            }
        }
    }
}
