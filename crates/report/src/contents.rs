//! The contents of a page: a link to each of its sections.

use std::fmt::Write as _;

/// A page's sections as a list of links, which stays in view; the page with an `id` for each section.
/// Nothing is listed where there is but one.
///
/// Only headings that the page itself has written are found: texts from outside are escaped.
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
    fn every_section_is_linked_by_its_own_name_or_by_a_number() {
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
    fn one_section_needs_no_list_and_half_a_heading_is_left_alone() {
        assert_eq!(listed("<h2>a</h2>").0, "");
        assert_eq!(listed("x<h2>a"), (String::new(), "x<h2>a".to_owned()));
        assert_eq!(listed("x<h2"), (String::new(), "x<h2".to_owned()));
    }
}
