"""The protocol of MySQL and MariaDB."""
