//! Searches for members by their places.

use std::cmp::Ordering;

use super::geo::{place, tell_distance, tell_place, unit};
use super::integer;
use super::zranges::{sort, store};
use super::zsets::zset;
use crate::args::Args;
use crate::collection::{self, AT_ONCE_BYTES_MAX, Collection, Scored, Stretch, TOO_MANY_AT_ONCE, weight};
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::float::parse_f64;
use crate::geo::{Place, Shape};
use crate::keyword::lower;
use crate::room::Room;
use crate::turn::sort_in_turns;

const NO_MEMBER: Error = Error::new("ERR could not decode requested zset member");
const NO_RADIUS: Error = Error::new("ERR need numeric radius");
const NEGATIVE_RADIUS: Error = Error::new("ERR radius cannot be negative");
const NO_WIDTH: Error = Error::new("ERR need numeric width");
const NO_HEIGHT: Error = Error::new("ERR need numeric height");
const NEGATIVE_BOX: Error = Error::new("ERR height or width cannot be negative");
const NO_COUNT: Error = Error::new("ERR COUNT must be > 0");
const ANY_OF_ALL: Error = Error::new("ERR the ANY argument requires COUNT argument");
const STORE_WITH: Error =
    Error::new("ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
const SEARCH_STORE_WITH: Error =
    Error::new("ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options");

/// How many members are read, or answered, in one piece.
const PAGE_MEMBERS: usize = 500;

/// Which kind of command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Center and radius come first. `of_member`: the center is that of a member; `may_store`: the command may store.
    Radius {
        of_member: bool,
        may_store: bool,
    },
    Search,
    SearchStore,
}

/// What is searched for.
struct Query<'a> {
    center: Option<Place>,
    /// The shape of the search, and how many meters its unit has.
    shape: Option<(Shape, f64)>,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    /// The nearest members first, or the farthest.
    order: Option<Ordering>,
    /// Most members that are wanted; 0 = all.
    count: u64,
    any: bool,
    store: Option<&'a [u8]>,
    stores_distance: bool,
}

/// A member that was found, with its place.
struct Found {
    member: Scored,
    place: Place,
    distance: f64,
}

fn circle(radius: &[u8], word: &[u8]) -> Outcome<(Shape, f64)> {
    let radius = parse_f64(radius).ok_or(NO_RADIUS)?;
    if radius < 0.0 {
        return Err(NEGATIVE_RADIUS);
    }
    let meters = unit(word)?;
    Ok((Shape::Circle(radius * meters), meters))
}

fn rectangle(width: &[u8], height: &[u8], word: &[u8]) -> Outcome<(Shape, f64)> {
    let (width, height) = (parse_f64(width).ok_or(NO_WIDTH)?, parse_f64(height).ok_or(NO_HEIGHT)?);
    if width < 0.0 || height < 0.0 {
        return Err(NEGATIVE_BOX);
    }
    let meters = unit(word)?;
    Ok((Shape::Box(width * meters, height * meters), meters))
}

/// The place of the member `name`; `None` if there is no such set.
async fn center_of(cx: &mut Context<'_>, zset: Option<&Collection<'_>>, name: &[u8]) -> Outcome<Option<Place>> {
    let Some(zset) = zset else { return Ok(None) };
    Ok(Some(Place::of_score(zset.score(cx, name).await?.ok_or(NO_MEMBER)?)))
}

impl<'a> Query<'a> {
    async fn parse(cx: &mut Context<'_>, args: Args<'a>, kind: Kind, zset: Option<&Collection<'_>>) -> Outcome<Self> {
        let mut query = Self {
            center: None,
            shape: None,
            with_distance: false,
            with_score: false,
            with_place: false,
            order: None,
            count: 0,
            any: false,
            store: None,
            stores_distance: false,
        };
        let from = match kind {
            Kind::Radius { of_member: false, .. } => {
                query.center = Some(place(args.at(2), args.at(3))?);
                query.shape = Some(circle(args.at(4), args.at(5))?);
                6
            }
            Kind::Radius { of_member: true, .. } => {
                query.center = center_of(cx, zset, args.at(2)).await?;
                if zset.is_some() {
                    query.shape = Some(circle(args.at(3), args.at(4))?);
                }
                5
            }
            Kind::Search => 2,
            Kind::SearchStore => {
                query.store = Some(args.at(1));
                3
            }
        };
        query.options(cx, args, from, kind, zset).await?;
        Ok(query)
    }

    /// The options from word `from` on.
    async fn options(
        &mut self,
        cx: &mut Context<'_>,
        args: Args<'a>,
        from: usize,
        kind: Kind,
        zset: Option<&Collection<'_>>,
    ) -> Outcome {
        let is_search = matches!(kind, Kind::Search | Kind::SearchStore);
        let may_store = matches!(kind, Kind::Radius { may_store: true, .. });
        let (mut of_member, mut of_place) = (false, false);
        let mut words = args.iter_from(from);
        while let Some(word) = words.next() {
            let is_box = matches!(self.shape, Some((Shape::Box(..), _)));
            let mut next = || words.next().ok_or(SYNTAX);
            match lower(word).as_slice() {
                b"withdist" => self.with_distance = true,
                b"withhash" => self.with_score = true,
                b"withcoord" => self.with_place = true,
                b"any" => self.any = true,
                b"asc" => self.order = Some(Ordering::Less),
                b"desc" => self.order = Some(Ordering::Greater),
                b"count" => {
                    let count = integer(next()?)?;
                    self.count = u64::try_from(count).ok().filter(|&count| count > 0).ok_or(NO_COUNT)?;
                }
                b"store" if may_store => (self.store, self.stores_distance) = (Some(next()?), false),
                b"storedist" if may_store => (self.store, self.stores_distance) = (Some(next()?), true),
                b"storedist" if kind == Kind::SearchStore => self.stores_distance = true,
                b"frommember" if is_search && !of_place => {
                    self.center = center_of(cx, zset, next()?).await?;
                    of_member = true;
                }
                b"fromlonlat" if is_search && !of_member => {
                    let (longitude, latitude) = (next()?, next()?);
                    self.center = Some(place(longitude, latitude)?);
                    of_place = true;
                }
                b"byradius" if is_search && !is_box => {
                    let (radius, unit) = (next()?, next()?);
                    self.shape = Some(circle(radius, unit)?);
                }
                b"bybox" if is_search && (is_box || self.shape.is_none()) => {
                    let (width, height, unit) = (next()?, next()?, next()?);
                    self.shape = Some(rectangle(width, height, unit)?);
                }
                _ => return Err(SYNTAX),
            }
        }
        if self.store.is_some() && (self.with_distance || self.with_score || self.with_place) {
            return Err(if kind == Kind::SearchStore { SEARCH_STORE_WITH } else { STORE_WITH });
        }
        let one_of = |what: &str| {
            let text = format!("ERR exactly one of {what} can be specified for ");
            Err(Error::bytes([text.as_bytes(), args.at(0)].concat()))
        };
        if is_search && !(of_member || of_place) {
            return one_of("FROMMEMBER or FROMLONLAT");
        }
        if is_search && self.shape.is_none() {
            return one_of("BYRADIUS and BYBOX");
        }
        if self.any && self.count == 0 {
            return Err(ANY_OF_ALL);
        }
        // Without an order, the first `count` members would be arbitrary ones.
        if self.count > 0 && !self.any {
            self.order = self.order.or(Some(Ordering::Less));
        }
        Ok(())
    }

    /// The members that are found in `zset`, in the order that was asked for.
    async fn run(&self, cx: &mut Context<'_>, zset: &Collection<'_>, room: &mut Room) -> Outcome<Vec<Found>> {
        let Some((center, (shape, _))) = self.center.zip(self.shape) else { return Ok(Vec::new()) };
        let enough = if self.any { usize::try_from(self.count).unwrap_or(usize::MAX) } else { usize::MAX };
        let mut found = Vec::new();
        for (from, to) in shape.scores(center) {
            let stretch = Stretch { from: collection::place(from, b""), to: Some(collection::place(to, b"")) };
            let mut left = Some(stretch).filter(|_| found.len() < enough);
            while let Some(stretch) = left {
                let (members, rest) = zset.scored_page(cx, stretch, false, PAGE_MEMBERS).await?;
                left = rest.filter(|_| found.len() < enough);
                for member in members {
                    let place = Place::of_score(member.score);
                    let Some(distance) = shape.distance(center, place).filter(|_| found.len() < enough) else {
                        continue;
                    };
                    room.take(weight(&member.name))?;
                    found.push(Found { member, place, distance });
                }
                cx.yields().now().await;
            }
        }
        if let Some(order) = self.order {
            let compare = |a: &Found, b: &Found| {
                let nearer = a.distance.total_cmp(&b.distance);
                if order == Ordering::Greater { nearer.reverse() } else { nearer }
            };
            (found, _) = sort_in_turns(cx.yields(), found, compare).await;
        }
        if self.count > 0 {
            found.truncate(usize::try_from(self.count).unwrap_or(usize::MAX));
        }
        Ok(found)
    }

    async fn answer(&self, cx: &mut Context<'_>, found: &[Found]) -> Outcome {
        let meters = self.shape.map_or(1.0, |(_, meters)| meters);
        let extra = [self.with_distance, self.with_score, self.with_place].into_iter().filter(|is| *is).count();
        // A distance is answered as one number with a fraction, and a place as two.
        let fractions = usize::from(self.with_distance) + 2 * usize::from(self.with_place);
        cx.fractions(found.len() * fractions);
        cx.replies().array(found.len());
        for page in found.chunks(PAGE_MEMBERS) {
            let replies = cx.replies();
            for one in page {
                if extra > 0 {
                    replies.array(1 + extra);
                }
                replies.bulk(&one.member.name);
                if self.with_distance {
                    tell_distance(replies, one.distance / meters);
                }
                if self.with_score {
                    replies.integer(one.member.score as i64);
                }
                if self.with_place {
                    tell_place(replies, one.place);
                }
            }
            cx.drain().await?;
            cx.yields().now().await;
        }
        Ok(())
    }
}

async fn search(cx: &mut Context<'_>, args: Args<'_>, kind: Kind) -> Outcome {
    let key = args.at(if kind == Kind::SearchStore { 2 } else { 1 });
    let zset = zset(cx, key).await?;
    let query = Query::parse(cx, args, kind, zset.as_ref()).await?;
    let mut room = cx.room(AT_ONCE_BYTES_MAX, TOO_MANY_AT_ONCE);
    let found = match &zset {
        Some(zset) => query.run(cx, zset, &mut room).await?,
        None => Vec::new(),
    };
    let Some(target) = query.store else { return query.answer(cx, &found).await };
    let meters = query.shape.map_or(1.0, |(_, meters)| meters);
    let stored = found.into_iter().map(|Found { member, distance, .. }| Scored {
        score: if query.stores_distance { distance / meters } else { member.score },
        ..member
    });
    let members = sort(cx, stored.collect()).await;
    store(cx, target, &members).await
}

pub async fn geosearch(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(cx, args, Kind::Search).await
}

pub async fn geosearchstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(cx, args, Kind::SearchStore).await
}

pub async fn georadius(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(cx, args, Kind::Radius { of_member: false, may_store: true }).await
}

pub async fn georadius_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(cx, args, Kind::Radius { of_member: false, may_store: false }).await
}

pub async fn georadiusbymember(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(cx, args, Kind::Radius { of_member: true, may_store: true }).await
}

pub async fn georadiusbymember_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(cx, args, Kind::Radius { of_member: true, may_store: false }).await
}
