"""Where do results go? Files of their owner, standard output, queues to other machines."""
