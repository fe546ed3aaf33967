/* The steps of a random program, each of which prints a line, and what they share. */
#include <openssl/ssl.h>
#include <stdint.h>
#include <sys/types.h>

enum { MOST_BYTES = 16384 };

extern char **arguments; /* of the program */
extern SSL_CTX *server_context, *client_context;

/* A random number. */
uint32_t below(uint32_t most);

/* A TLS connection, both ends in this process, over memory. */
struct pair {
	SSL *server, *client;
	BIO *to_server, *from_server, *to_client, *from_client;
};

int open_pair(struct pair *made);

/* Returns how many of `messages` arrived whole. */
int pass(struct pair *over, int messages, int size);

/* The same over a new pair; less than 0: there is none. */
int tls(int messages, int size);

/* Wait for a child, and print how it ended. */
void show_status(const char *what, pid_t child);

void in_memory(void);
void over_sockets(void);
void many_threads(void);
void forked(void);
void forked_beside_threads(void);
void spawned(void);
void handlers(void);
void plugin(void);
void beside_dlopen(void);
void copies(void);
void limits(void);
void filtered(void);
void small_stacks(void);
void symbols(void);
void failures(void);
void daemonised(void);
