//! YAML text to a tree in which every node knows its line and column. Knows nothing of Headgate.

use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Marker, Parser, ScalarStyle};

/// Where something stands in the file, both from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// One value of the file. Cheap to clone: an alias shares the content of its anchor.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Where the value itself begins: the place of whatever a map lacks.
    pub(super) start: Position,
    /// Where a person looks for the value: at the field's name when the value is a list or a map, or begins on a later line.
    pub(super) at: Position,
    pub(super) content: Rc<Content>,
}

#[derive(Debug)]
pub(super) enum Content {
    Scalar {
        text: String,
        /// Written without quotes, so that it may mean a number, a truth value or nothing.
        plain: bool,
    },
    List(Vec<Node>),
    Map {
        entries: Vec<(Key, Node)>,
        /// Names given a second time; their values are not kept.
        repeated: Vec<Key>,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) at: Position,
}

/// Why a text is no YAML that we read.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) at: Position,
    pub(super) message: String,
}

/// Deeper nesting than any configuration has; keeps every walk over the tree well within the stack.
const DEPTH_MAX: usize = 32;

/// More anchors than anyone needs; a chain of aliases is no deeper than there are anchors.
const ANCHORS_MAX: usize = 500;

impl Node {
    /// The value of a field, when this is a map that has it.
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.entries().iter().find_map(|(key, value)| (key.name == name).then_some(value))
    }

    /// The fields of a map; none for anything else.
    pub(super) fn entries(&self) -> &[(Key, Node)] {
        match &*self.content {
            Content::Map { entries, .. } => entries,
            _ => &[],
        }
    }

    /// The items of a list; none for anything else.
    pub(super) fn items(&self) -> &[Node] {
        match &*self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }
}

/// What a plain scalar without value means in YAML 1.2.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Reads one document. An empty text is a null node at its first character.
pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut builder = Builder::default();
    for next in Parser::new_from_str(text) {
        let (event, span) =
            next.map_err(|error| SyntaxError { at: position(error.marker()), message: error.info().clone() })?;
        builder.event(event, position(&span.start))?;
    }
    Ok(builder.root.unwrap_or_else(|| scalar(Position { line: 1, column: 1 }, String::new(), true)))
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

fn scalar(at: Position, text: String, plain: bool) -> Node {
    Node { start: at, at, content: Rc::new(Content::Scalar { text, plain }) }
}

/// A list or map that is still open.
enum Open {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, repeated: Vec<Key>, key: Option<Key> },
}

struct Frame {
    start: Position,
    at: Position,
    anchor: usize,
    open: Open,
}

#[derive(Default)]
struct Builder {
    open: Vec<Frame>,
    anchors: HashMap<usize, Rc<Content>>,
    root: Option<Node>,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: Position) -> Result<(), SyntaxError> {
        if event.tag().is_some() {
            return Err(refuse(at, "tags (`!name`) have no meaning here"));
        }
        match event {
            Event::DocumentStart(..) if self.root.is_some() => Err(refuse(at, "a second document in one file")),
            Event::Scalar(text, style, anchor, _) => {
                let node = scalar(at, text.into_owned(), style == ScalarStyle::Plain);
                self.remember(anchor, &node)?;
                self.place(node)
            }
            Event::SequenceStart(_, anchor, _) => self.enter(at, anchor, Open::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                self.enter(at, anchor, Open::Map { entries: Vec::new(), repeated: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(),
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(content) => self.place(Node { start: at, at, content: Rc::clone(content) }),
                None => Err(refuse(at, "an alias inside its own anchor")),
            },
            _ => Ok(()),
        }
    }

    fn enter(&mut self, start: Position, anchor: usize, open: Open) -> Result<(), SyntaxError> {
        if self.open.len() == DEPTH_MAX {
            return Err(refuse(start, "nested too deeply"));
        }
        let at = match self.open.last() {
            Some(Frame { open: Open::Map { key: Some(key), .. }, .. }) => key.at,
            Some(Frame { open: Open::Map { key: None, .. }, .. }) => return Err(refuse(start, KEY_IS_TEXT)),
            _ => start,
        };
        self.open.push(Frame { start, at, anchor, open });
        Ok(())
    }

    fn leave(&mut self) -> Result<(), SyntaxError> {
        let Some(Frame { start, at, anchor, open }) = self.open.pop() else { return Ok(()) };
        let content = match open {
            Open::List(items) => Content::List(items),
            Open::Map { entries, repeated, .. } => Content::Map { entries, repeated },
        };
        let node = Node { start, at, content: Rc::new(content) };
        self.remember(anchor, &node)?;
        self.place(node)
    }

    fn remember(&mut self, anchor: usize, node: &Node) -> Result<(), SyntaxError> {
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node.content));
        }
        if self.anchors.len() > ANCHORS_MAX { Err(refuse(node.start, "too many anchors")) } else { Ok(()) }
    }

    /// Puts a finished node where it belongs: a map takes names and values in turn.
    fn place(&mut self, node: Node) -> Result<(), SyntaxError> {
        match self.open.last_mut().map(|frame| &mut frame.open) {
            None => self.root = Some(node),
            Some(Open::List(items)) => items.push(node),
            Some(Open::Map { entries, repeated, key }) => match key.take() {
                None => match &*node.content {
                    Content::Scalar { text, .. } => *key = Some(Key { name: text.clone(), at: node.start }),
                    _ => return Err(refuse(node.start, KEY_IS_TEXT)),
                },
                Some(key) if entries.iter().any(|(other, _)| other.name == key.name) => repeated.push(key),
                Some(key) => {
                    let at = if node.start.line == key.at.line { node.at } else { key.at };
                    entries.push((key, Node { at, ..node }));
                }
            },
        }
        Ok(())
    }
}

const KEY_IS_TEXT: &str = "a list or map as the name of a field";

fn refuse(at: Position, message: &str) -> SyntaxError {
    SyntaxError { at, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: Position) -> (usize, usize) {
        (position.line, position.column)
    }

    #[test]
    fn every_value_knows_its_place() {
        let root = parse("a: 1\nb:\n  c: 'ü'\n  d: [x, {e: y}]\nf:\n- 1\n-\n  g: |\n    z\n").unwrap();
        assert_eq!(at(root.start), (1, 1));
        let (b, d) = (root.get("b").unwrap(), root.get("b").unwrap().get("d").unwrap());
        assert_eq!((at(b.at), at(b.start)), ((2, 1), (3, 3)));
        assert_eq!((at(d.at), at(d.items()[1].at)), ((4, 3), (4, 10)));
        assert_eq!(at(d.items()[1].get("e").unwrap().at), (4, 14));
        let list = root.get("f").unwrap();
        assert_eq!((at(list.at), at(list.items()[1].at)), ((5, 1), (8, 3)));
        assert_eq!(at(list.items()[1].get("g").unwrap().at), (8, 3));
    }

    #[test]
    fn a_name_given_twice_keeps_its_first_value_and_is_remembered() {
        let root = parse("a: 1\nb: 2\na: 3\n").unwrap();
        let Content::Map { entries, repeated } = &*root.content else { panic!("a map") };
        assert_eq!((entries.len(), repeated.len(), at(repeated[0].at)), (2, 1, (3, 1)));
    }

    #[test]
    fn an_alias_of_an_alias_of_a_list_stays_small() {
        let chain = |length: usize| -> String {
            let aliases = (1..length).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}]", n - 1));
            std::iter::once("a0: &a0 [x, x]".to_owned()).chain(aliases).collect::<Vec<_>>().join("\n")
        };
        let text = chain(200);
        assert_eq!(parse(&text).unwrap().entries().len(), 200);
        assert!(parse(&chain(100_000)).unwrap_err().message.contains("too many"));
    }
}
