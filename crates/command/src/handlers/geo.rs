//! Places: members of sorted sets whose scores are positions on Earth.

use super::zsets::{AddOptions, add_all, zset};
use crate::args::Args;
use crate::collection::Collection;
use crate::context::Context;
use crate::error::{Error, NOT_A_FLOAT, Outcome, SYNTAX};
use crate::float::parse_f64;
use crate::geo::Place;
use crate::keyword::lower;
use crate::reply::Replies;
use crate::turn::end_turn;

const NO_UNIT: Error = Error::new("ERR unsupported unit provided. please use M, KM, FT, MI");

/// The place that two words give.
pub(super) fn place(longitude: &[u8], latitude: &[u8]) -> Outcome<Place> {
    let number = |word: &[u8]| parse_f64(word).ok_or(NOT_A_FLOAT);
    let place = Place { longitude: number(longitude)?, latitude: number(latitude)? };
    if place.is_on_map() {
        return Ok(place);
    }
    let Place { longitude, latitude } = place;
    Err(Error::bytes(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").into_bytes()))
}

/// How many meters a unit has.
pub(super) fn unit(word: &[u8]) -> Outcome<f64> {
    match lower(word).as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(NO_UNIT),
    }
}

/// Writes a distance.
pub(super) fn tell_distance(replies: &mut Replies, distance: f64) {
    replies.bulk(format!("{distance:.4}").as_bytes());
}

/// Writes a place: two numbers with up to 17 decimals.
pub(super) fn tell_place(replies: &mut Replies, place: Place) {
    replies.array(2);
    for number in [place.longitude, place.latitude] {
        let text = format!("{number:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        replies.double_text(text.as_bytes());
    }
}

pub async fn geoadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut options = AddOptions::default();
    let first = options.parse(args, &[b"nx", b"xx", b"ch"]);
    let words = args.len() - first;
    if !words.is_multiple_of(3) || options.are_exclusive() || words == 0 {
        return Err(SYNTAX);
    }
    let mut members = Vec::with_capacity(words / 3);
    let triples = (first..args.len()).step_by(3).map(|at| (args.at(at), args.at(at + 1), args.at(at + 2)));
    for (index, (longitude, latitude, name)) in triples.enumerate() {
        end_turn(cx.yields(), index).await;
        members.push((place(longitude, latitude)?.score(), name));
    }
    add_all(cx, args.at(1), &options, members.into_iter()).await
}

async fn place_of(cx: &mut Context<'_>, zset: Option<&Collection<'_>>, name: &[u8]) -> Outcome<Option<Place>> {
    let Some(zset) = zset else { return Ok(None) };
    Ok(zset.score(cx, name).await?.map(Place::of_score))
}

pub async fn geopos(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let zset = zset(cx, args.at(1)).await?;
    cx.replies().array(args.len() - 2);
    for (index, name) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        match place_of(cx, zset.as_ref(), name).await? {
            Some(place) => {
                cx.fractions(2);
                tell_place(cx.replies(), place);
            }
            None => cx.replies().null_array(),
        }
        cx.drain().await?;
    }
    Ok(())
}

pub async fn geohash(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let zset = zset(cx, args.at(1)).await?;
    cx.replies().array(args.len() - 2);
    for (index, name) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        match place_of(cx, zset.as_ref(), name).await? {
            Some(place) => cx.replies().bulk(&place.letters()),
            None => cx.replies().null(),
        }
        cx.drain().await?;
    }
    Ok(())
}

pub async fn geodist(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let meters = match args.get(4) {
        None => 1.0,
        Some(word) if args.len() == 5 => unit(word)?,
        Some(_) => return Err(SYNTAX),
    };
    let zset = zset(cx, args.at(1)).await?;
    let (from, to) = (place_of(cx, zset.as_ref(), args.at(2)).await?, place_of(cx, zset.as_ref(), args.at(3)).await?);
    match from.zip(to) {
        Some((from, to)) => {
            cx.fractions(1);
            tell_distance(cx.replies(), from.distance(to) / meters);
        }
        None => cx.replies().null(),
    }
    Ok(())
}
