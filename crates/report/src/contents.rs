//! Contents of a page: a link to each section.

use std::fmt::Write as _;

/// Returns a list of links to a page's sections, which stays in view, and the page with an `id` for
/// each section. The list is empty if there is only one section.
///
/// Only headings of the page itself are found, since texts from outside are escaped.
pub(super) fn listed(page: &str) -> (String, String) {
    let mut parts = page.split("<h2");
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut links = String::new();
    let mut count = 0;
    for part in parts {
        let parsed = part.split_once('>').and_then(|(attributes, rest)| {
            let (text, _) = rest.split_once("</h2>")?;
            Some((attributes, rest, text))
        });
        let Some((attributes, rest, text)) = parsed else {
            out.push_str("<h2");
            out.push_str(part);
            continue;
        };
        count += 1;
        let own = attributes.split_once("id=\"").and_then(|(_, rest)| rest.split('"').next());
        let id = own.map_or_else(|| format!("section-{count}"), str::to_owned);
        let attributes = match own {
            Some(_) => attributes.to_owned(),
            None => format!("{attributes} id=\"{id}\""),
        };
        // Writing into a string cannot fail.
        let _ = write!(out, "<h2{attributes}>{rest}");
        let _ = write!(links, "<a href=\"#{id}\">{text}</a>");
    }
    if count < 2 {
        return (String::new(), out);
    }
    (format!("<nav class=\"contents\" aria-label=\"contents\">{links}</nav>"), out)
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn sections_are_linked_by_their_own_id_or_a_number() {
        let page = "<h1>x</h1><h2>Over the day</h2>a<h2 class=\"c\" id=\"own\">b &lt;h2&gt;</h2>c";
        let (nav, page) = listed(page);
        assert_eq!(
            nav,
            "<nav class=\"contents\" aria-label=\"contents\"><a href=\"#section-1\">Over the day</a>\
             <a href=\"#own\">b &lt;h2&gt;</a></nav>"
        );
        assert_eq!(
            page,
            "<h1>x</h1><h2 id=\"section-1\">Over the day</h2>a<h2 class=\"c\" id=\"own\">b &lt;h2&gt;</h2>c"
        );
    }

    #[test]
    fn single_section_is_not_listed_and_half_a_heading_is_ignored() {
        assert_eq!(listed("<h2>a</h2>").0, "");
        assert_eq!(listed("x<h2>a"), (String::new(), "x<h2>a".to_owned()));
        assert_eq!(listed("x<h2"), (String::new(), "x<h2".to_owned()));
    }
}
