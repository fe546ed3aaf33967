/* A small exchange of HTTP/1.1. */

/* For printf, with a number. */
static const char REQUEST[] = "GET /item/%08ld HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench/1.0\r\n"
			      "Accept: */*\r\n\r\n";
static const char RESPONSE[] = "HTTP/1.1 200 OK\r\nServer: bench/1.0\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\n"
			       "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
