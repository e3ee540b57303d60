//! Connections by number. A number is a place and how often it was used, so that what is left of a former
//! connection never means the next one in its place.

use crate::connection::Connection;

/// Bits of a number that say the place.
const PLACE_BITS: u32 = 20;
const PLACES_MAX: usize = 1 << PLACE_BITS;
const LIVES_MAX: u32 = (1 << (u32::BITS - PLACE_BITS)) - 2;

/// The connections.
#[derive(Default)]
pub struct Slab {
    places: Vec<(u32, Option<Box<Connection>>)>,
    free: Vec<u32>,
}

impl Slab {
    /// Puts one in; `None` when there are too many.
    pub fn insert(&mut self, connection: Connection) -> Option<u32> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < PLACES_MAX => {
                self.places.push((0, None));
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        let (life, occupant) = &mut self.places[place as usize];
        *occupant = Some(Box::new(connection));
        Some(*life << PLACE_BITS | place)
    }

    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Connection> {
        let (life, occupant) = self.places.get_mut(number as usize & (PLACES_MAX - 1))?;
        if *life != number >> PLACE_BITS {
            return None;
        }
        occupant.as_deref_mut()
    }

    #[inline]
    pub fn get(&self, number: u32) -> Option<&Connection> {
        let (life, occupant) = self.places.get(number as usize & (PLACES_MAX - 1))?;
        if *life == number >> PLACE_BITS { occupant.as_deref() } else { None }
    }

    pub fn remove(&mut self, number: u32) {
        if self.get(number).is_some() {
            let place = number & (PLACES_MAX as u32 - 1);
            let (life, occupant) = &mut self.places[place as usize];
            *occupant = None;
            *life = if *life == LIVES_MAX { 0 } else { *life + 1 };
            self.free.push(place);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The numbers of all.
    pub fn numbers(&self) -> Vec<u32> {
        let occupied = self.places.iter().enumerate().filter(|(_, (_, occupant))| occupant.is_some());
        occupied.map(|(place, (life, _))| life << PLACE_BITS | place as u32).collect()
    }
}
