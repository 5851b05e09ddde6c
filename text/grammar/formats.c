/* formats.c - Formats, by the RFCs that JSON Schema names.
 *
 * Where validators differ, the expression is inside all of them. */
#include "text/grammar/formats.h"

#include <string.h>

#define DATE                                                    \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|" \
    "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"                      \
    "02-(?:0[1-9]|1\\d|2[0-8]))|"                               \
    "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|"               \
    "(?:[02468][048]|[13579][26])00)-02-29)"
#define TIME                                                          \
    "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?"             \
    "(?:[Zz]|[+\\-](?:[01]\\d|2[0-3]):[0-5]\\d)|23:59:60(?:\\.\\d+)?" \
    "[Zz])"
#define DURATION_TIME "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define DURATION                                                    \
    "P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)" \
    "(?:" DURATION_TIME ")?|" DURATION_TIME ")"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"
#define ATEXT "[A-Za-z0-9!#$%&'*+\\/=?^_`{|}~\\-]+"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  OCTET "(?:\\." OCTET "){3}"
#define H16   "[0-9A-Fa-f]{1,4}"
#define LS32  "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                             \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16       \
    ")?::(?:" H16 ":){4}" LS32 "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 \
    ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32  \
    "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16        \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16     \
    "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
#define PCT       "%[0-9A-Fa-f]{2}"
#define PCHAR     "(?:[A-Za-z0-9\\-._~!$&'()*+,;=:@]|" PCT ")"
#define REG       "(?:[A-Za-z0-9\\-._~!$&'()*+,;=]|" PCT ")"
#define AUTHORITY "(?:(?:" REG "|:)*@)?(?:\\[" IPV6 "\\]|" REG "*)(?::\\d*)?"
#define PATH_REST "(?:\\/" PCHAR "*)*"
#define TAIL      "(?:\\?(?:" PCHAR "|[\\/?])*)?(?:#(?:" PCHAR "|[\\/?])*)?"
#define URI                                                                   \
    "[A-Za-z][A-Za-z0-9+.\\-]*:(?:\\/\\/" AUTHORITY PATH_REST "|\\/(?:" PCHAR \
    "+" PATH_REST ")?|" PCHAR "+" PATH_REST ")" TAIL
#define SEGMENT_NC "(?:[A-Za-z0-9\\-._~!$&'()*+,;=@]|" PCT ")"
#define RELATIVE                                                  \
    "(?:\\/\\/" AUTHORITY PATH_REST "|\\/(?:" PCHAR "+" PATH_REST \
    ")?|" SEGMENT_NC "+" PATH_REST ")?" TAIL
#define POINTER "(?:\\/(?:[^~\\/]|~[01])*)*"

const struct format_row format_rows[] = {
    {"date-time", "^" DATE "[Tt]" TIME "$"},
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"duration", "^" DURATION "$"},
    {"email", "^" ATEXT "(?:\\." ATEXT ")*@(?:" LABEL "\\.)+" LABEL "$"},
    {"hostname", "^(?=.{1,253}$)" LABEL "(?:\\." LABEL ")*$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uuid", "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
    {"uri", "^" URI "$"},
    {"uri-reference", "^(?:" URI "|" RELATIVE ")$"},
    {"json-pointer", "^" POINTER "$"},
    {"relative-json-pointer", "^(?:0|[1-9]\\d*)(?:#|" POINTER ")$"},
    {"idn-email", NULL},
    {"idn-hostname", NULL},
    {"iri", NULL},
    {"iri-reference", NULL},
    {"uri-template", NULL},
    {"regex", NULL},
};
const size_t format_rows_n = sizeof format_rows / sizeof *format_rows;

const struct format_row *format_find(const char *name)
{
    for (size_t i = 0; i < format_rows_n; i++) {
        if (strcmp(format_rows[i].name, name) == 0) {
            return &format_rows[i];
        }
    }
    return NULL;
}
